/* DLPack through the C ABI: both ways, ownership, and what is refused. The structs are the specification's. */
#include "abi.h"

typedef struct managed {
  struct {
    void* data;
    struct {
      int32_t type, id;
    } device;
    int32_t ndim;
    struct {
      uint8_t code, bits;
      uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
  } tensor;
  void* manager;
  void (*deleter)(struct managed*);
} managed;

static int deleted;
static void count_delete(managed* self) {
  (void)self;
  deleted++;
}

static managed describe(float* data, int32_t ndim, int64_t* shape, int64_t* strides) {
  managed result;
  memset(&result, 0, sizeof result);
  result.tensor.data = data;
  result.tensor.device.type = 1;
  result.tensor.ndim = ndim;
  result.tensor.dtype.code = 2;
  result.tensor.dtype.bits = 32;
  result.tensor.dtype.lanes = 1;
  result.tensor.shape = shape;
  result.tensor.strides = strides;
  result.deleter = count_delete;
  return result;
}

static void test_import(pl_context context) {
  float data[8] = {0, 1, 2, 3, 4, 5, 6, 7}, back[6];
  int64_t shape[2] = {2, 3}, strides[2] = {1, 2}, backwards[2] = {-1, 2};
  managed source = describe(data, 2, shape, NULL);
  pl_tensor tensor = NULL, copy;
  pl_tensor_info info;
  OK(pl_tensor_from_dlpack(context, &source, &tensor));
  OK(pl_tensor_describe(tensor, &info));
  CHECK(info.is_borrowed);
  CHECK_EQUAL(info.rank, 2);
  CHECK_EQUAL(info.shape[1], 3);
  CHECK_EQUAL(info.dtype, PL_F32);
  OK(pl_tensor_read(tensor, back, sizeof back));
  CHECK(!memcmp(data, back, sizeof back));
  OK(pl_tensor_retain(tensor, &copy));
  OK(pl_tensor_release(tensor));
  CHECK_EQUAL(deleted, 0);
  OK(pl_tensor_release(copy));
  CHECK_EQUAL(deleted, 1);

  /* Strides and an offset in bytes. */
  source.tensor.strides = strides;
  source.tensor.byte_offset = 2 * sizeof(float);
  OK(pl_tensor_from_dlpack(context, &source, &tensor));
  OK(pl_tensor_read(tensor, back, sizeof back));
  CHECK_EQUAL(back[0], 2);
  CHECK_EQUAL(back[1], 4);
  CHECK_EQUAL(back[3], 3);
  CHECK_EQUAL(back[5], 7);
  OK(pl_tensor_release(tensor));
  CHECK_EQUAL(deleted, 2);

  /* Refused: the caller keeps it. */
  tensor = NULL;
  source.tensor.strides = backwards;
  FAILS(PL_ERROR_SHAPE, "negative", pl_tensor_from_dlpack(context, &source, &tensor));
  source.tensor.strides = NULL;
  source.tensor.device.type = 2;
  FAILS(PL_ERROR_DEVICE, "device type is 2", pl_tensor_from_dlpack(context, &source, &tensor));
  source.tensor.device.type = 4; /* OpenCL, which this context has not */
  FAILS(PL_ERROR_DEVICE, "opencl:0", pl_tensor_from_dlpack(context, &source, &tensor));
  source.tensor.device.type = 1;
  source.tensor.dtype.bits = 64;
  FAILS(PL_ERROR_UNSUPPORTED, "64 bits", pl_tensor_from_dlpack(context, &source, &tensor));
  source.tensor.dtype.bits = 32;
  source.tensor.dtype.lanes = 4;
  FAILS(PL_ERROR_UNSUPPORTED, "4 lanes", pl_tensor_from_dlpack(context, &source, &tensor));
  source.tensor.dtype.lanes = 1;
  source.tensor.ndim = 12;
  FAILS(PL_ERROR_SHAPE, "rank", pl_tensor_from_dlpack(context, &source, &tensor));
  source.tensor.ndim = 2;
  source.tensor.byte_offset = 1;
  FAILS(PL_ERROR_INVALID_ARGUMENT, "aligned", pl_tensor_from_dlpack(context, &source, &tensor));
  source.tensor.byte_offset = 0;
  source.tensor.data = NULL;
  FAILS(PL_ERROR_INVALID_ARGUMENT, "data is NULL", pl_tensor_from_dlpack(context, &source, &tensor));
  CHECK_EQUAL(deleted, 2);
  CHECK(tensor == NULL);

  /* Empty tensors have no data; scalars no shape; the deleter may be absent. */
  shape[0] = 0;
  source.deleter = NULL;
  OK(pl_tensor_from_dlpack(context, &source, &tensor));
  OK(pl_tensor_read(tensor, NULL, 0));
  OK(pl_tensor_release(tensor));
  source = describe(data + 5, 0, NULL, NULL);
  OK(pl_tensor_from_dlpack(context, &source, &tensor));
  OK(pl_tensor_read(tensor, back, sizeof back[0]));
  CHECK_EQUAL(back[0], 5);
  OK(pl_tensor_release(tensor));
  CHECK_EQUAL(deleted, 3);
}

static void test_export(pl_context context) {
  const int64_t shape[4] = {1, 3, 2, 2};
  float values[12], *data;
  int i;
  pl_tensor tensor, blocked;
  managed* exported = NULL;
  for (i = 0; i < 12; i++) values[i] = (float)i;
  tensor = make_tensor(context, 4, shape, "NHWC", values, 12);
  OK(pl_tensor_to_dlpack(tensor, (void**)&exported));
  OK(pl_tensor_convert(tensor, NULL, "nChw8c", NULL, &blocked));
  OK(pl_tensor_release(tensor));
  CHECK_EQUAL(exported->tensor.device.type, 1);
  CHECK_EQUAL(exported->tensor.device.id, 0);
  CHECK_EQUAL(exported->tensor.ndim, 4);
  CHECK_EQUAL(exported->tensor.dtype.code, 2);
  CHECK_EQUAL(exported->tensor.dtype.bits, 32);
  CHECK_EQUAL(exported->tensor.dtype.lanes, 1);
  CHECK_EQUAL(exported->tensor.shape[1], 3);
  CHECK_EQUAL(exported->tensor.strides[1], 1);
  CHECK_EQUAL(exported->tensor.strides[3], 3);
  data = (float*)((char*)exported->tensor.data + exported->tensor.byte_offset);
  CHECK_EQUAL(data[1], values[4]);
  CHECK_EQUAL(data[3], values[1]);

  /* What was exported can be imported again: no copy. */
  OK(pl_tensor_from_dlpack(context, exported, &tensor));
  OK(pl_tensor_data(tensor, (void**)&data));
  CHECK_EQUAL(data[1], values[4]);
  OK(pl_tensor_release(tensor)); /* calls the deleter */

  exported = NULL;
  FAILS(PL_ERROR_LAYOUT, "nChw8c", pl_tensor_to_dlpack(blocked, (void**)&exported));
  CHECK(exported == NULL);
  OK(pl_tensor_release(blocked));
}

TEST("all") {
  pl_context context = make_context();
  pl_memory_info memory;
  CHECK_EQUAL(sizeof(managed), 64);
  test_import(context);
  test_export(context);
  OK(pl_memory(context, "cpu", &memory));
  CHECK_EQUAL(memory.in_use, 0);
  OK(pl_context_release(context));
}
