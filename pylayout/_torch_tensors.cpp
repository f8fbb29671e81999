/* Two functions of libtorch are called by addresses that Python has looked up (pylayout/torch/watch.py). This file is
 * C++ because at::TensorBase::_version() throws for a tensor without a version. */
#include "_torch_tensors.h"

#include <Python.h>

#include <cstring>

int pyl_changed(const pyl_watch* watch, size_t list) {
  auto* const arguments = reinterpret_cast<PyObject*>(list);
  const auto version_of = reinterpret_cast<int64_t (*)(const void*)>(watch->version_of);
  const auto address_of = reinterpret_cast<int32_t (*)(void*, void**)>(watch->address_of);
  try {
    for (size_t i = 0; i < watch->count; ++i) {
      char* const object = reinterpret_cast<char*>(PyList_GetItem(arguments, watch->places[i]));
      void* const tensor = object + watch->tensor_offset;
      void* address = nullptr;
      if (version_of(tensor) != watch->versions[i] || address_of(tensor, &address) != 0 ||
          reinterpret_cast<size_t>(address) != watch->addresses[i])
        return 1;
      for (size_t k = 2 * i; k < 2 * i + 2; ++k) {
        uint32_t word = 0;
        if (watch->offsets[k] < 0) continue;
        std::memcpy(&word, static_cast<const char*>(address) + watch->offsets[k], sizeof word);
        if (word != watch->words[k]) return 1;
      }
    }
  } catch (...) {  // without a version it is not what it was
    return 1;
  }
  return 0;
}
