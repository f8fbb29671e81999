/* pylayout.h: layout-aware deep-learning operators, the C interface.
 *
 * C99.  Every function returns a pl_status and takes its outputs last, unless noted; none aborts, and no C++
 * exception crosses this boundary.  After a status other than PL_OK, pl_last_error() of the same thread says
 * which op and argument, what was expected and what came; outputs are then unchanged.  The one exception: tensors that
 * were given for the results of a plan's run (pl_plan_run and its like) hold anything after a run that fails.
 *
 * Handles (pl_context, pl_tensor, pl_attributes, pl_graph, pl_plan, pl_candidates, pl_stream, pl_event) are counted
 * references: each one that a function returns is yours to release.  A handle that was released, or never was one, is
 * answered PL_ERROR_INVALID_ARGUMENT, not with a crash.  All functions may be called from any thread, on shared handles
 * too; releasing a handle while another thread passes the same handle to a call is safe (the call either completes or
 * reports it released).
 *
 * Shapes are logical, (n, c, h, w) whatever the order in memory; sizes are in elements unless named bytes.
 * Strings are UTF-8.  Strings that a function returns through `char **` are freed with pl_string_free.
 */
#ifndef PYLAYOUT_H
#define PYLAYOUT_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define PL_API __declspec(dllexport)
#else
#define PL_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define PL_MAX_RANK 8

typedef enum pl_status {
  PL_OK = 0,
  PL_ERROR_INVALID_ARGUMENT = 1, /* wrong type, unknown attribute, value out of range, released handle */
  PL_ERROR_SHAPE = 2,            /* a tensor's rank or size does not fit */
  PL_ERROR_LAYOUT = 3,           /* a layout that does not parse, or does not fit the rank */
  PL_ERROR_DEVICE = 4,           /* unknown device, device failure, tensors on the wrong device */
  PL_ERROR_UNSUPPORTED = 5,      /* valid, but nothing here can do it */
  PL_ERROR_OUT_OF_MEMORY = 6,    /* after every cache was released */
  PL_ERROR_IO = 7,               /* a file could not be read or written */
  PL_ERROR_INTERNAL = 8,         /* a defect of pylayout: please report it */
  PL_ERROR_INTERRUPTED = 9       /* the caller asked for the end of the call: see pl_context_interrupt */
} pl_status;

typedef enum pl_dtype {
  PL_F32 = 0,
  PL_F16 = 1,
  PL_BF16 = 2,
  PL_S8 = 3,
  PL_U8 = 4,
  PL_S32 = 5,
  PL_S64 = 6,
  PL_BOOL = 7
} pl_dtype;

typedef struct pl_context_handle* pl_context;
typedef struct pl_tensor_handle* pl_tensor;
typedef struct pl_attributes_handle* pl_attributes;
typedef struct pl_graph_handle* pl_graph;
typedef struct pl_plan_handle* pl_plan;
typedef struct pl_candidates_handle* pl_candidates;
typedef struct pl_stream_handle* pl_stream;
typedef struct pl_event_handle* pl_event;

/* What a tensor is.  The element (i_0, i_1, ...) of a tensor without inner blocks lies at
 * offset + sum(i_k * strides[k]) elements; see docs/explanation/layouts.md for blocked ones. */
typedef struct pl_tensor_info {
  pl_dtype dtype;
  int32_t rank;
  int64_t shape[PL_MAX_RANK];
  int64_t strides[PL_MAX_RANK]; /* elements between outer blocks of a dimension */
  int64_t offset;               /* of the first element, in elements */
  size_t storage_bytes;         /* from the start of the storage to the tensor's end, padding included */
  char layout[64];              /* "NCHW", "nChw16c", "acdb"; "" for rank 0 */
  char device[32];              /* "cpu", "opencl:0" */
  int32_t is_dense;             /* 1: no gaps but block padding, offset 0 */
  int32_t is_borrowed;          /* 1: the storage is somebody else's memory */
} pl_tensor_info;

typedef struct pl_memory_info {
  size_t in_use;        /* bytes in live tensors and workspaces */
  size_t cached;        /* bytes kept for reuse */
  size_t peak;          /* the most that was in use, since pl_memory_reset_peaks if that was called */
  uint64_t allocations; /* how often the system was asked for memory */
  size_t peak_held;     /* the most that was in use and cached, since then */
} pl_memory_info;

/* ---- library ---- */

/* "0.1.0"; static storage. */
PL_API const char* pl_version(void);
/* The message of this thread's last failed call; "" if there was none.  Valid until the thread's next call. */
PL_API const char* pl_last_error(void);
PL_API void pl_string_free(char* string);
/* Every op's schema as a JSON list: name, kind, doc, parameters (name, kind, type, default, choices, doc). */
PL_API pl_status pl_ops(char** json);
/* Known faults of the libraries and drivers below, which are avoided, as a JSON list: {"id", "library", "since",
 * "fixed", "condition", "effect", "seen", "instead", "remedy", "here", "applies"}.  since, fixed: the first version
 * that has it, and the first that has it no more; "": none known.  here: versions of the library that this process has
 * opened, a context having asked for them; applies: whether one of them has the fault, and its condition may be met in
 * this process. */
PL_API pl_status pl_known_faults(char** json);
/* Parses a layout: canonical name ("NCHW", "nChw16c") into name[64], the generic spelling ("aBcd16b") into
 * generic[64]; either may be NULL. */
PL_API pl_status pl_layout_parse(const char* text, int32_t* rank, char* name, char* generic);
/* Describes a dense tensor without making one: strides, storage_bytes, padded sizes into padded_shape[8]
 * (may be NULL). */
PL_API pl_status pl_layout_describe(const char* layout, pl_dtype dtype, int32_t rank, const int64_t* shape,
                                    pl_tensor_info* info, int64_t* padded_shape);

/* ---- context ---- */

/* A context holds devices, memory pools, prepared kernels, measured costs and the profile.  `options` is NULL
 * or attribute text; unknown keys are errors:
 *   threads=N                 threads for ops on `cpu` (default: OMP_NUM_THREADS, at most
 *                             the processors of this process)
 *   tune=auto|off|full        auto (default): candidates are measured where it matters; off: never; full: all of them
 *   math=fp32|tf32|fp16|bf16  fp32 (default): products of f32 are as accurate as f32 arithmetic
 *                             tf32: factors may be rounded to tf32
 *                             fp16: plans may hold values as f16, too (what exceeds 65504 becomes infinite), where the
 *                             device gains by it; states, their updates and losses stay f32
 *                             bf16: the same with values as bf16
 *   cache_dir="..."           measured costs and compiled kernels (default: $PYLAYOUT_CACHE_DIR, else the user's
 *                             cache); kernels are the process's: they go where the last context that names a folder
 *                             says
 *   choice_memory=N           bytes that choices and prepared kernels of calls may take (default 268435456); the least
 *                             recently used are let go, and made again when they are needed
 *   cost_tables=true|false    whether costs that other machines measured may serve as a prior (default true)
 *   opencl=true|false         whether to look for OpenCL devices (default true)
 *   onednn=true|false         whether oneDNN's implementations are candidates (default true)
 *   host=true|false           whether the library's own for the CPU are (default true) */
PL_API pl_status pl_context_create(const char* options, pl_context* context);
/* Changes threads, tune or math. */
PL_API pl_status pl_context_set(pl_context context, const char* options);
/* 1 once programs that repeat run as they will from now on: no linked ops are waiting for their contest, or in the
 * middle of it, no ops of a GPU wait to be measured behind their calls (docs/explanation/choice.md; always so with
 * tune=off), and no plan that ran within the last second has others competing in its runs (pl_plan_settled).  A
 * benchmark warms up until then. */
PL_API pl_status pl_context_settled(pl_context context, int32_t* settled);
PL_API pl_status pl_context_release(pl_context context);
/* Lets the caller end calls that take long because they measure, search or compile: pl_plan_compile and pl_plan_load,
 * pl_op_tune, pl_tune, pl_calibrate, the first call of an op.  They ask `check` now and then (at most every 20 ms for
 * each thread), in the thread that made the call.  Anything but 0 ends the call with PL_ERROR_INTERRUPTED, but for
 * pl_tune, which ends as if its progress had said so.  What was measured until then is kept, everything stays usable.
 * NULL: nobody is asked (default). */
typedef int (*pl_interrupt)(void* user);
PL_API pl_status pl_context_interrupt(pl_context context, pl_interrupt check, void* user);
/* Tells of ops that `cpu` runs in the place of another device, as nothing there can: before each such call of an op
 * (pl_op_run, pl_op_run_all), in the calling thread, with the op's name, the device's, and in one line why.  The texts
 * are valid during the call.  Anything but 0 refuses: that call of an op fails with PL_ERROR_UNSUPPORTED and has done
 * nothing.  For steps of plans see pl_plan_explain.  NULL: nobody is told (default). */
typedef int (*pl_fallback)(void* user, const char* op, const char* device, const char* reason);
PL_API pl_status pl_context_on_fallback(pl_context context, pl_fallback tell, void* user);
/* Devices as JSON: {"devices": [{"name", "providers", "properties", "fingerprint"}], "notes": [...]}. */
PL_API pl_status pl_devices(pl_context context, char** json);
/* Waits for all work queued on a device (NULL: on all devices), on all of its streams. */
PL_API pl_status pl_synchronize(pl_context context, const char* device);
/* Lends a host framework's OpenCL objects (retained here): tensors may then be made of its cl_mem objects, and
 * work is queued on its queue (in-order).  The new device's name, "opencl:N", goes to name[32].  Lending the
 * same queue again gives the same name.  OpenCL itself follows any pointer: what is no OpenCL object is refused here
 * where its memory shows it, but an object of another kind, or one that was released, may still crash the runtime. */
PL_API pl_status pl_context_lend_opencl(pl_context context, void* cl_context, void* cl_command_queue, char* name);

/* ---- streams and events ---- */

/* A stream is a queue of work on one device: what is started later on it is done later.  A device has one of its own,
 * to which work goes, and may have more, whose work is done beside it: a copy beside ops, say.  A thread starts all
 * work on a device, ops, runs of plans, copies, on the stream that it made current.  On `cpu` work is done at once,
 * whatever the stream.
 *
 * Results are the same on any streams: work waits for that of other streams which wrote the memory that it reads, or
 * uses the memory that it writes.  That holds for memory of tensors; what else a program does with a cl_mem of its own,
 * or with host memory that it lent, it orders itself, by events. */
PL_API pl_status pl_stream_create(pl_context context, const char* device, pl_stream* stream);
/* Work that is queued on it is still done. */
PL_API pl_status pl_stream_release(pl_stream stream);
/* The stream that a device has of itself. */
PL_API pl_status pl_stream_own(pl_context context, const char* device, pl_stream* stream);
/* The calling thread's stream on a device; its own where none was made current. */
PL_API pl_status pl_stream_current(pl_context context, const char* device, pl_stream* stream);
/* From now on the calling thread starts work on the stream's device there.  A device's own stream is made current like
 * any other. */
PL_API pl_status pl_stream_make_current(pl_stream stream);
/* Waits for the work that is queued on it. */
PL_API pl_status pl_stream_synchronize(pl_stream stream);
/* Sets *done to 1 where all work that was started on it is done, else 0; does not wait. */
PL_API pl_status pl_stream_done(pl_stream stream, int32_t* done);
/* Work that is started on the stream from now on waits for the event, which may be of another stream or device. */
PL_API pl_status pl_stream_wait(pl_stream stream, pl_event event);
/* The point in the stream that is reached when all work queued so far is done. */
PL_API pl_status pl_event_record(pl_stream stream, pl_event* event);
PL_API pl_status pl_event_release(pl_event event);
PL_API pl_status pl_event_synchronize(pl_event event);
/* 1: it is reached.  Does not wait. */
PL_API pl_status pl_event_done(pl_event event, int32_t* done);
/* From one event to another of the same device, by the device's clock; waits for both. */
PL_API pl_status pl_event_elapsed(pl_event first, pl_event second, double* milliseconds);

/* ---- memory ---- */

PL_API pl_status pl_memory(pl_context context, const char* device, pl_memory_info* info);
/* peak and peak_held begin from what there is now. */
PL_API pl_status pl_memory_reset_peaks(pl_context context, const char* device);
/* An upper bound on a device's memory in bytes; 0: none. */
PL_API pl_status pl_memory_limit(pl_context context, const char* device, size_t bytes);
/* Returns cached memory and prepared kernels that are not in use. */
PL_API pl_status pl_memory_release_caches(pl_context context);

/* ---- tensors ---- */

/* A zero-filled tensor.  layout NULL: plain (NCHW). */
PL_API pl_status pl_tensor_create(pl_context context, const char* device, pl_dtype dtype, int32_t rank,
                                  const int64_t* shape, const char* layout, pl_tensor* tensor);
/* A tensor on `cpu` over the caller's memory, no copy.  Give either a layout (dense) or strides in elements
 * (any order, non-negative) or neither (plain).  `release(user)` is called when the storage is no longer
 * used; without it the caller keeps the memory alive.  After writing to the memory call pl_tensor_touch. */
PL_API pl_status pl_tensor_borrow(pl_context context, pl_dtype dtype, int32_t rank, const int64_t* shape,
                                  const char* layout, const int64_t* strides, void* data, void (*release)(void* user),
                                  void* user, pl_tensor* tensor);
/* A tensor over a cl_mem (retained) of a lent or own OpenCL device; offset in bytes, a multiple of the dtype.  It must
 * be alive: see pl_context_lend_opencl. */
PL_API pl_status pl_tensor_borrow_cl(pl_context context, const char* device, pl_dtype dtype, int32_t rank,
                                     const int64_t* shape, const char* layout, void* cl_mem, size_t offset_bytes,
                                     pl_tensor* tensor);
/* `bytes` bytes of a device's memory as a tensor of PL_U8 of rank 1, contents undefined: for callers that place tensors
 * in memory themselves, by pl_tensor_view. */
PL_API pl_status pl_tensor_allocate(pl_context context, const char* device, size_t bytes, pl_tensor* tensor);
/* The same on `cpu`, of memory that `device` transfers without copying it first, where its driver can: pinned.
 * pl_tensor_data gives its address. */
PL_API pl_status pl_tensor_allocate_pinned(pl_context context, const char* device, size_t bytes, pl_tensor* tensor);
/* A tensor within the storage of another one, which it keeps: the element (i_0, i_1, ...) lies `offset` +
 * sum(i_k * strides[k]) elements of `dtype` behind the storage's first byte.  Strides are not negative; a stride of 0
 * repeats elements, which then are only read.  Copies in other layouts are kept with the view, not with `tensor`. */
PL_API pl_status pl_tensor_view(pl_tensor tensor, pl_dtype dtype, int32_t rank, const int64_t* shape,
                                const int64_t* strides, int64_t offset, pl_tensor* view);
PL_API pl_status pl_tensor_release(pl_tensor tensor);
/* Another reference to the same tensor. */
PL_API pl_status pl_tensor_retain(pl_tensor tensor, pl_tensor* same);
PL_API pl_status pl_tensor_describe(pl_tensor tensor, pl_tensor_info* info);
/* Copies the logical elements, in plain row-major order, to or from host memory of exactly `bytes` bytes. */
PL_API pl_status pl_tensor_read(pl_tensor tensor, void* data, size_t bytes);
PL_API pl_status pl_tensor_write(pl_tensor tensor, const void* data, size_t bytes);
/* The same, but where the device queues its work, on the calling thread's stream: what is read is there, and what is
 * written may change or go, when an event that was recorded on the stream after the call is reached.  From pageable
 * memory a driver may still copy at once; pl_tensor_allocate_pinned gives other. */
PL_API pl_status pl_tensor_read_later(pl_tensor tensor, void* data, size_t bytes);
PL_API pl_status pl_tensor_write_later(pl_tensor tensor, const void* data, size_t bytes);
/* Copies the elements of a tensor into another one of its shape and dtype, of any layout and device of the context;
 * through host memory only where the devices have no other way. */
PL_API pl_status pl_tensor_copy(pl_tensor source, pl_tensor destination);
/* The storage itself, in the tensor's own layout; valid while the tensor lives.  pl_tensor_data waits for queued
 * work that writes it; it fails with PL_ERROR_DEVICE where the host cannot address the memory. */
PL_API pl_status pl_tensor_data(pl_tensor tensor, void** data);
PL_API pl_status pl_tensor_cl_mem(pl_tensor tensor, void** cl_mem);
/* Says that the caller changed the storage: copies in other layouts made before are no longer valid. */
PL_API pl_status pl_tensor_touch(pl_tensor tensor);
/* The same logical tensor elsewhere or otherwise: each of device, layout, dtype may be NULL (unchanged).  The
 * cheapest path of reorders and transfers is taken; if nothing changes, the result is the same tensor.  The
 * copy is kept with `tensor` and given again until the storage changes. */
PL_API pl_status pl_tensor_convert(pl_tensor tensor, const char* device, const char* layout, const char* dtype,
                                   pl_tensor* converted);
/* DLPack 0.x (DLManagedTensor *).  Export needs a layout without inner blocks; the caller calls its deleter.
 * Import takes over the managed tensor on success.  kDLCPU and, for cl_mem, kDLOpenCL. */
PL_API pl_status pl_tensor_to_dlpack(pl_tensor tensor, void** managed);
PL_API pl_status pl_tensor_from_dlpack(pl_context context, void* managed, pl_tensor* tensor);

/* ---- ops ---- */

/* Attributes of an op call, from text such as
 *   "stride=[2,2] padding=1 activation=relu layout=NHWC"
 * Values: integers, floats, true, false, none, words, "quoted strings", lists of numbers.  What is fused behind an op
 * is a list in text, post_ops="add(residual), clip(-1, 1)"; activation=relu is short for it.  Two keys are common to
 * all ops: layout (auto, per-op, or a layout to force where an implementation has it; default auto) and device
 * (default: the inputs').  Checked against the op's schema when used.  Reusing a handle saves parsing. */
PL_API pl_status pl_attributes_create(const char* text, pl_attributes* attributes);
PL_API pl_status pl_attributes_set_ints(pl_attributes attributes, const char* key, const int64_t* values, size_t count);
PL_API pl_status pl_attributes_set_float(pl_attributes attributes, const char* key, double value);
PL_API pl_status pl_attributes_set_text(pl_attributes attributes, const char* key, const char* value);
PL_API pl_status pl_attributes_release(pl_attributes attributes);

/* Runs an op.  inputs: in the schema's order, NULL for an optional one that is absent.  outputs: room for
 * `capacity` handles; where outputs[i] is not NULL on entry, the result is written into that tensor (its shape
 * and dtype must be the result's; any layout and device), otherwise a new tensor is returned there.  That tensor may
 * be an input: a product whose `residual` it is, too, is added to what it holds, where it lies.
 * attributes may be NULL.  output_count (may be NULL) gets the number of outputs, also where that is more than
 * `capacity`, which is an error. */
PL_API pl_status pl_op_run(pl_context context, const char* op, pl_attributes attributes, const pl_tensor* inputs,
                           size_t input_count, pl_tensor* outputs, size_t capacity, size_t* output_count);
/* A call of pl_op_run whose results are written into tensors that exist: of all outputs one is given. */
typedef struct pl_op_call {
  const char* op;
  pl_attributes attributes;
  const pl_tensor* inputs;
  size_t input_count;
  const pl_tensor* outputs;
  size_t output_count;
} pl_op_call;
/* What these calls would do one after another.  Those that do the same element by element, and of which none
 * waits for another one's result, are started as one where the device can: the steps of an optimizer on hundreds of
 * tensors.  After a failure none or all of the calls before the one at fault have run. */
PL_API pl_status pl_op_run_all(pl_context context, const pl_op_call* calls, size_t count);
/* The candidates for that call, best first, and the refusals, as JSON: {"op", "device", "chosen", "candidates":
 * [{"provider", "implementation", "inputs", "outputs", "op_ms", "reorder_ms", "total_ms", "measured"}],
 * "linked": {"ops", "settled", "layout", "ms"}, "refusals": [{"provider", "reason"}]}.  `linked` says what the last
 * contest of layouts found that this op took part in.  Measures nothing. */
PL_API pl_status pl_op_query(pl_context context, const char* op, pl_attributes attributes, const pl_tensor* inputs,
                             size_t input_count, char** json);
/* Measures every candidate of the call (and the reorders it may need), within `seconds`, and returns what
 * pl_op_query would then say. */
PL_API pl_status pl_op_tune(pl_context context, const char* op, pl_attributes attributes, const pl_tensor* inputs,
                            size_t input_count, double seconds, char** json);

/* Called now and then during a search, in the calling thread: what is done, and how far all is, 0 to 1.  Anything but
 * 0 ends the search, whose results so far are kept. */
typedef int (*pl_tune_progress)(void* user, const char* what, double fraction);
/* Searches the tuning spaces of kernels for every op that this context has met on the device (by running, querying or
 * compiling it), within `seconds`; times are kept as they come, so that another call goes on where this one stopped.
 * progress may be NULL.  json: {"device", "seconds", "ops": [{"op", "before_ms", "after_ms", "before", "after",
 * "points", "measured", "finished", "found": [{"family", "shapes", "values", "ms"}]}]}. */
PL_API pl_status pl_tune(pl_context context, const char* device, double seconds, pl_tune_progress progress, void* user,
                         char** json);
/* The values that searches on this device found the fastest: [{"family", "shapes", "values", "op", "ms"}]. */
PL_API pl_status pl_tuned(pl_context context, const char* device, char** json);

/* ---- candidates, one by one ---- */

/* Every candidate of a call, to be run on the same inputs whichever would be chosen: for checks.  options is NULL or
 * attribute text:
 *   input_strided=true output_strided=true   the first input, the only output is the part of a larger tensor
 *   strided_layout=NHWC                      with more channels in that layout
 *   every_point=true                         also the points of tuning spaces that only pl_tune tries
 *   shifted=true                             on cpu: tensors are aligned to their elements alone, as a caller's may be
 * The inputs must not change until the handle is released. */
PL_API pl_status pl_op_candidates(pl_context context, const char* op, pl_attributes attributes, const pl_tensor* inputs,
                                  size_t input_count, const char* options, pl_candidates* candidates);
PL_API pl_status pl_candidates_release(pl_candidates candidates);
/* {"op", "description", "device", "math", "view", "candidates": [{"key", "provider", "implementation", "inputs",
 * "outputs"}], "refusals": [{"provider", "reason"}]}. */
PL_API pl_status pl_candidates_describe(pl_candidates candidates, char** json);
/* Runs the candidate with that place in the list, on memory of its own: outputs and workspace are poisoned before, and
 * so are the bytes around every tensor.  outputs: room for `capacity` handles, set to new plain tensors on `cpu`, or to
 * NULL where it gave no result.  json: {"prepared", "ms", "damage": ["output 0: wrote byte 3 behind its end"]};
 * `damage` is what it did beside giving results, or why it could not run.  output_count may be NULL. */
PL_API pl_status pl_candidates_run(pl_candidates candidates, size_t index, pl_tensor* outputs, size_t capacity,
                                   size_t* output_count, char** json);

/* ---- graphs ---- */

/* A value of a graph: what an op, an input or a constant gives.  Numbered from 0. */
typedef int32_t pl_value;
#define PL_NO_VALUE (-1)

/* An empty graph.  Calls on one graph from several threads wait for each other. */
PL_API pl_status pl_graph_create(pl_context context, pl_graph* graph);
PL_API pl_status pl_graph_release(pl_graph graph);
/* An input.  axes: NULL, or a name for each axis that may get another size later (pl_graph_bind), separated by commas,
 * nothing for a fixed one: "n,,,".  layout: in which the caller will give it; NULL: plain; "any": as the plan likes. */
PL_API pl_status pl_graph_input(pl_graph graph, const char* name, pl_dtype dtype, int32_t rank, const int64_t* shape,
                                const char* axes, const char* layout, pl_value* value);
/* A constant; the graph keeps the tensor, which must not change any more.  name may be NULL. */
PL_API pl_status pl_graph_constant(pl_graph graph, const char* name, pl_tensor tensor, pl_value* value);
/* A constant over memory of the caller's, dense and row-major, in whose place nothing is kept: what a plan packs of it
 * lies elsewhere, and it is read again where another form is wanted.  A mapped file, for instance; it need not be
 * aligned. `release` (may be NULL) is called with `user` when nothing needs it any more, and not at all after a
 * failure. */
PL_API pl_status pl_graph_constant_memory(pl_graph graph, const char* name, pl_dtype dtype, int32_t rank,
                                          const int64_t* shape, const void* data, void (*release)(void* user),
                                          void* user, pl_value* value);
/* Appends an op, checked as pl_op_run checks it.  inputs: in the schema's order, PL_NO_VALUE for an optional one that
 * is absent.  attributes (may be NULL) must not hold `layout` or `device`: the plan chooses.  name (may be NULL) is for
 * messages and profiles.  The op's results are the values *first, *first + 1, ...: *count (may be NULL) of them. */
PL_API pl_status pl_graph_op(pl_graph graph, const char* op, pl_attributes attributes, const pl_value* inputs,
                             size_t input_count, const char* name, pl_value* first, size_t* count);
/* A named value that a plan keeps between its runs, with what it is before the first one.  Ops read it as any value;
 * pl_graph_update says what it becomes by a run, and pl_plan_state reads it.  A parameter is a state that gradients are
 * taken of.  The graph keeps the tensor, which must not change until a plan is made; plans copy it. */
PL_API pl_status pl_graph_parameter(pl_graph graph, const char* name, pl_tensor tensor, pl_value* value);
PL_API pl_status pl_graph_state(pl_graph graph, const char* name, pl_tensor tensor, pl_value* value);
/* After each run, `state` is what `value` was in it.  A second call for one state replaces the first. */
PL_API pl_status pl_graph_update(pl_graph graph, pl_value state, pl_value value);
/* Appends the ops that derive `loss`, a value of one element, by each of `count` values; gradients[i] is that by by[i],
 * of its shape and dtype.  PL_ERROR_UNSUPPORTED where an op between them has no gradient; the graph is then as before.
 * For other sizes of named axes (pl_graph_bind, runs of a plan) they are derived anew. */
PL_API pl_status pl_graph_gradients(pl_graph graph, pl_value loss, const pl_value* by, size_t count,
                                    pl_value* gradients);
/* Gradients of `scale * loss`, for plans with math=fp16, where small gradients would underflow.  The scale is the state
 * "loss_scale"; it starts at `initial` (usually 65536).  Pass *grad_scale to the optimizer steps: it is 1/scale, or 0
 * if a gradient is not finite; the steps then change nothing.  Such a run halves the scale, and states that were given
 * an update before this call keep their values.  After `interval` other runs in a row (usually 2000; counted in
 * "loss_scale/good_steps") the scale doubles.  The host reads nothing back. */
PL_API pl_status pl_graph_scaled_gradients(pl_graph graph, pl_value loss, const pl_value* by, size_t count,
                                           double initial, int64_t interval, pl_value* gradients, pl_value* grad_scale);
/* What is known of a constant when its graph is made one that trains. */
typedef enum pl_trained {
  PL_TRAINED_BY_USE = 0,  /* nothing: a weight where ops call it so, in products, sums, quotients and look-ups */
  PL_TRAINED_ALWAYS = 1,  /* a parameter */
  PL_TRAINED_NEVER = 2,   /* a table, or a number of the formula */
  PL_TRAINED_BY_ROLE = 3, /* made of weights or of tables: a weight where only weights are */
  PL_TRAINED_GIVEN = 4    /* something that the model brings along: a weight wherever data meet it */
} pl_trained;
/* The same program for training: weights become parameters, and batch norms take the statistics of the batch, which
 * their running ones, as states, follow by `momentum` (0.1 is usual).  kinds[i] is what is known of constants[i], of
 * `count` (0: of none, and both may be NULL); of others nothing is. */
PL_API pl_status pl_graph_trainable(pl_graph graph, double momentum, const pl_value* constants, const pl_trained* kinds,
                                    size_t count, pl_graph* trainable);
/* The same with attributes that follow from sizes, so that the graph may be bound to others: attribute text whose
 * numbers are expressions without spaces, "shape=[n,s,12,64] start=#7.1-1".  In expressions stand numbers, names of
 * axes (letters, digits, _), #V.D for dimension D of value V, + - * / % (rounding down), brackets, min(a,b), max(a,b)
 * and broadcast(a,b). */
PL_API pl_status pl_graph_op_late(pl_graph graph, const char* op, pl_attributes attributes, const char* late,
                                  const pl_value* inputs, size_t input_count, const char* name, pl_value* first,
                                  size_t* count);
/* A constant whose elements follow from sizes, of PL_S64, PL_S32 or PL_F32: "[n,s*64]" (rank 1), "s" (rank 0), or
 * "range(first,end,step)" (rank 1).  name may be NULL. */
PL_API pl_status pl_graph_sizes(pl_graph graph, const char* name, pl_dtype dtype, const char* sizes, pl_value* value);
/* The graph may be bound to sizes only for which this holds: two expressions with ==, !=, < or <= between them.  What
 * is not so now is refused with PL_ERROR_UNSUPPORTED, and so is binding to sizes for which it is not. */
PL_API pl_status pl_graph_require(pl_graph graph, const char* condition);
/* Makes a value a result of the graph.  name NULL: the value's.  layout: in which the caller wants it; NULL: plain;
 * "any": as the plan likes, which pl_plan_describe tells; the same in all runs, at all sizes. */
PL_API pl_status pl_graph_output(pl_graph graph, pl_value value, const char* name, const char* layout);
/* Shape and dtype of a value (and layout, strides, device where it is a constant). */
PL_API pl_status pl_graph_value(pl_graph graph, pl_value value, pl_tensor_info* info);
/* The tensor of a constant; *tensor is NULL for other values. */
PL_API pl_status pl_graph_value_tensor(pl_graph graph, pl_value value, pl_tensor* tensor);
/* The graph as text: format "text" (for people, the default for NULL), "dot" (Graphviz) or "json". */
PL_API pl_status pl_graph_describe(pl_graph graph, const char* format, char** text);
/* The same program for other sizes of the named axes, given as attribute text: "n=16". */
PL_API pl_status pl_graph_bind(pl_graph graph, const char* sizes, pl_graph* bound);
/* The same program, for the sizes that its inputs have now, after the passes that every plan begins with.  without:
 * names of passes to leave out, separated by commas, or NULL.  json (may be NULL): [{"name", "doc", "rewrites"}]. */
PL_API pl_status pl_graph_simplify(pl_graph graph, const char* without, pl_graph* simplified, char** json);
/* The same program, with one op `pointwise` for elementwise ops that follow each other, and equal ops done once.  For who
 * runs a graph's ops one by one; plans do the same by themselves. */
PL_API pl_status pl_graph_join_elements(pl_graph graph, pl_graph* joined);

/* ---- plans ---- */

/* Called now and then while a plan is made, in the calling thread: what is done, and how far it is, 0 to 1. */
typedef void (*pl_progress)(void* user, const char* stage, double fraction);

/* A graph with every choice made: simplified, layouts and implementations assigned, weights packed, memory planned.
 * The graph itself does not change, and may be released.  options is NULL or attribute text:
 *
 *   device=NAME               where to run; auto (default): a GPU if there is one, else cpu
 *   layout=NAME               auto (default), or one to force for comparison
 *   threads=N                 of ops on cpu; 0 (default): the context's
 *   tune=auto|off|full|live   off: known costs and estimates decide, nothing is run
 *                             auto (default): on cpu and GPUs the same, and then other programs compete in the plan's
 *                             runs (docs/explanation/planning.md); of a step of training on a GPU, and on other OpenCL
 *                             devices, what matters is measured before
 *                             full: every implementation is measured before
 *                             live: as auto does on cpu, on all devices and of training too.  What has to be compiled
 *                             is compiled on threads of the plan's own, which end with pl_plan_freeze or the plan
 *   seconds=S                 for measuring before the first run (default 60; 0: no limit).  Where it is given,
 *                             tune=auto measures before everywhere.  Not with tune=live
 *   deterministic=true|false  true: nothing competes in live runs (default false)
 *   slice=N                   images at a time; 0 (default): chosen by measurement
 *   streams=N                 slices at the same time; 0 (default): chosen by measurement.  What is left of the batch
 *                             when no `streams` slices remain is run at once, on all threads
 *   math=fp32|tf32|fp16|bf16  as of pl_context_create; at least the context's
 *   memory_limit=BYTES        of values between inputs and outputs, of weights and of states
 *                             (docs/howto/ship-a-plan.md)
 *   program_memory=BYTES      what programs for further sizes of named axes may take, beside weights and the memory
 *                             that they share (default: 32 MiB or a twentieth of the weights, whichever is more); the
 *                             one not used for longest goes first
 *   submit=caller|thread      which thread submits kernels to an OpenCL driver, 5 to 10 us each on NVIDIA's: caller
 *                             (default): the calling one, within the run; thread: one of the library's where the
 *                             device has one (PYLAYOUT_SUBMIT), for callers with other work between runs.  An error
 *                             of it is told by a later call of the device then
 *   simplify=true|false       false: without the passes of docs/reference/passes.md (default true)
 *   without="pass,pass"       without these of them
 * progress may be NULL. */
PL_API pl_status pl_plan_compile(pl_graph graph, const char* options, pl_progress progress, void* user, pl_plan* plan);
PL_API pl_status pl_plan_release(pl_plan plan);
/* Runs the plan; any number of threads may at the same time.  Inputs and outputs are those of the graph, in the order
 * in which they were added; inputs in other layouts or on other devices are converted.  outputs: room for `capacity`
 * handles, at least one for each output; where outputs[i] is not NULL on entry, the result is written into that
 * tensor, otherwise a new one is returned there.  That tensor may be an input of the run: a result is written over what
 * the run reads where every element is read before, and is copied there behind the run where not.  What is in the
 * outputs of a run that fails is undefined.  Where inputs have named axes, tensors of any sizes may come: those of
 * which the plan has no program yet are bound, and prepared in milliseconds, in this call; sizes for which the graph
 * was not made are refused with PL_ERROR_UNSUPPORTED.  Of an input that grows, concat(past, added) as an output, the
 * result is a strided view of memory with room for more, into which later runs write behind it: not to be written to.
 */
PL_API pl_status pl_plan_run(pl_plan plan, const pl_tensor* inputs, size_t input_count, pl_tensor* outputs,
                             size_t capacity);
/* The same on host memory, for callers to whom a call's overhead matters: inputs[i] and outputs[i] are the first
 * elements of tensors of the dtype, shape and layout that pl_plan_describe gives ("any": plain), dense and aligned to
 * their dtype.  An output may be an input, whole, as of pl_plan_run; else none may overlap another one or an input. */
PL_API pl_status pl_plan_run_memory(pl_plan plan, const void* const* inputs, size_t input_count, void* const* outputs,
                                    size_t output_count);
/* The same at sizes of named axes: sizes[i] is that of the i-th one, in the order in which inputs name them first
 * (pl_plan_describe).  Sizes without a program yet are as in pl_plan_run; outputs have the shapes that follow. */
PL_API pl_status pl_plan_run_memory_at(pl_plan plan, const int64_t* sizes, size_t size_count, const void* const* inputs,
                                       size_t input_count, void* const* outputs, size_t output_count);
/* Makes the program for sizes of the named axes, given as above, so that no run waits for it. */
PL_API pl_status pl_plan_prepare(pl_plan plan, const int64_t* sizes, size_t size_count);
/* A copy of a value that the plan keeps (pl_graph_state), as it is between two runs, and another in its place, of the
 * same shape and dtype.  Runs of a plan that keeps values wait for each other, and these calls for them. */
PL_API pl_status pl_plan_state(pl_plan plan, const char* name, pl_tensor* tensor);
PL_API pl_status pl_plan_set_state(pl_plan plan, const char* name, pl_tensor tensor);
/* Lets the plan serve further sizes: another graph of the same inputs and outputs, for sizes for which the plan's own
 * was not made (pl_graph_require).  Constants that are the same tensors are packed once for both. */
PL_API pl_status pl_plan_extend(pl_plan plan, pl_graph graph);
/* Writes graph, weights, states and choices to a file, whole or not at all. */
PL_API pl_status pl_plan_save(pl_plan plan, const char* path);
/* Reads a plan that was saved.  options is NULL or attribute text, as for pl_plan_compile, and replan=true|false: a
 * plan made for other hardware, software or numbers of threads is compiled anew with these options, or refused with
 * PL_ERROR_UNSUPPORTED (default).  With replan=true so is one for another device, number of threads or arithmetic than
 * the options say; without it there are no other options.  A damaged file gives PL_ERROR_INVALID_ARGUMENT. */
PL_API pl_status pl_plan_load(pl_context context, const char* path, const char* options, pl_plan* plan);
/* 1 once no run changes the plan's choices any more. */
PL_API pl_status pl_plan_settled(pl_plan plan, int32_t* settled);
/* What was chosen so far stays: nothing competes in the plan's runs from here on. */
PL_API pl_status pl_plan_freeze(pl_plan plan);
/* The inputs and outputs as JSON: {"inputs": [{"name", "dtype", "shape", "layout", "axes"}], "outputs": [...]};
 * axes of inputs: names as pl_graph_input took them, [] where none has one. */
PL_API pl_status pl_plan_describe(pl_plan plan, char** json);
/* For people: for each op what was chosen, the runner-up and its margin; each reorder and what made it necessary. */
PL_API pl_status pl_plan_explain(pl_plan plan, char** text);
/* The same in figures, as JSON: steps, reorders, memory, the programs that were timed, the passes. */
PL_API pl_status pl_plan_summary(pl_plan plan, char** json);
/* The graph after the passes, as pl_graph_describe gives it. */
PL_API pl_status pl_plan_graph(pl_plan plan, const char* format, char** text);

/* ---- profile ---- */

/* From start to stop every op and reorder is recorded, each timed by its device.  One recording at a time. */
PL_API pl_status pl_profile_start(pl_context context);
/* Ends the recording: {"events": [{"kind": "op"|"reorder"|"transfer", "op", "provider", "implementation",
 * "device", "inputs", "outputs", "bytes", "flops", "start_ms", "ms", "role", "cause", "thread"}], ...}. */
PL_API pl_status pl_profile_stop(pl_context context, char** json);

/* ---- measured costs ---- */

/* The cost database: {"path", "records", "environments", "stale", "damaged", "writable", "cache_dir", "cost_tables",
 * "tables"}.  An environment is a device with its driver, a provider's version and a number of threads; stale records
 * are of one that is not here.  tables: those that come with the package and imported ones: {"path", "class",
 * "imported", "devices"}, the devices here that it may serve, each with what it holds, what it says of its machine, and
 * "found": "not checked", "believed" or "refused". */
PL_API pl_status pl_costs_describe(pl_context context, char** json);
/* Forgets all measured costs, imported tables and choices of plans, in memory and on disk. */
PL_API pl_status pl_costs_clear(pl_context context);
/* What was measured on a device, as text for other machines of its class (kind of device, vector extensions or name, a
 * like number of threads): for each op the ratio of each candidate to the fastest.  With pl_costs_import there, and as
 * tables that come with the package, it prices what was not measured, once a few of its ops were measured and agree.
 * `threads`: of ops on the host's processors; 0: the context's. */
PL_API pl_status pl_costs_export(pl_context context, const char* device, int32_t threads, char** text);
/* Keeps such a table in the cache directory, in place of one for its class.  json: {"path", "class", "ops",
 * "candidates", "damaged", "devices"}: lines that were skipped, and the devices here that are of the class. */
PL_API pl_status pl_costs_import(pl_context context, const char* text, char** json);
/* Measures a device's rates (bandwidth, arithmetic, launch overhead) anew. */
PL_API pl_status pl_calibrate(pl_context context, const char* device, char** json);

#ifdef __cplusplus
}
#endif

#endif /* PYLAYOUT_H */
