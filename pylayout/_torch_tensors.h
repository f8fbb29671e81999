/* Part of the Python extension: whether tensors of PyTorch are what they were, without its headers.
 * _callbacks.cdef declares the same for cffi. */
#ifndef PYLAYOUT_TORCH_TENSORS_H
#define PYLAYOUT_TORCH_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pyl_watch {
  size_t version_of;      /* address of: int64_t (const at::TensorBase* this) */
  size_t address_of;      /* address of: int32_t (at::Tensor*, void** address), 0 where it succeeds */
  size_t tensor_offset;   /* bytes from a tensor's Python object to its at::Tensor */
  size_t count;           /* of the arrays below */
  const uint32_t* places; /* of the tensors in the list of arguments */
  const int64_t* versions;
  const size_t* addresses;
  /* Two words of each tensor, where they lie in its memory and what they held: what was written past the count of
   * versions (`weight.data.copy_`) has most often changed them.  offsets is -1 where memory is not read. */
  const int64_t* offsets;
  const uint32_t* words;
} pyl_watch;

/* Whether one of the tensors of a Python list has another version or memory than it had.  The interpreter's lock is not
 * held: the caller holds the list, which no other thread knows, and the list holds the tensors. */
int pyl_changed(const pyl_watch* watch, size_t list);

#ifdef __cplusplus
}
#endif

#endif
