/* pylayout-compiler: compiles OpenCL programs for the process that starts it, so that several are compiled at once
 * where a driver compiles one at a time in a process (providers/opencl/program/compiler_processes.h).
 *
 *   pylayout-compiler LIBRARY PLATFORM VERSION DEVICE    with a socket as standard input
 *
 * LIBRARY is an OpenCL loader or runtime, PLATFORM and VERSION name one of its platforms, DEVICE is the device's number
 * on it.  The socket carries a byte for "ready", then for each request (three numbers of 8 bytes: kind, bytes of the
 * program, bytes of the options; then both) a byte: built or not.  What is built stays in the driver's own cache on
 * disk, where the other process finds it.  Ends with the socket, or when nothing is asked for a while. */
#include <dlfcn.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <CL/cl.h>

enum { IDLE_MS = 5000 };
#define MOST_BYTES ((uint64_t)64 << 20) /* of a program */

/* The entry points used, of the library that was asked for. */
static cl_int(CL_API_CALL* platform_ids)(cl_uint, cl_platform_id*, cl_uint*);
static cl_int(CL_API_CALL* platform_info)(cl_platform_id, cl_platform_info, size_t, void*, size_t*);
static cl_int(CL_API_CALL* device_ids)(cl_platform_id, cl_device_type, cl_uint, cl_device_id*, cl_uint*);
static cl_context(CL_API_CALL* create_context)(const cl_context_properties*, cl_uint, const cl_device_id*,
                                               void(CL_CALLBACK*)(const char*, const void*, size_t, void*), void*,
                                               cl_int*);
static cl_program(CL_API_CALL* from_source)(cl_context, cl_uint, const char**, const size_t*, cl_int*);
static cl_program(CL_API_CALL* from_binary)(cl_context, cl_uint, const cl_device_id*, const size_t*,
                                            const unsigned char**, cl_int*, cl_int*);
static cl_int(CL_API_CALL* build)(cl_program, cl_uint, const cl_device_id*, const char*,
                                  void(CL_CALLBACK*)(cl_program, void*), void*);
static cl_int(CL_API_CALL* release)(cl_program);

static int open_library(const char* path) {
  static const struct {
    const char* name;
    void* pointer;
  } entries[] = {{"clGetPlatformIDs", &platform_ids},
                 {"clGetPlatformInfo", &platform_info},
                 {"clGetDeviceIDs", &device_ids},
                 {"clCreateContext", &create_context},
                 {"clCreateProgramWithSource", &from_source},
                 {"clCreateProgramWithBinary", &from_binary},
                 {"clBuildProgram", &build},
                 {"clReleaseProgram", &release}};
  size_t i;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return 0;
  for (i = 0; i < sizeof entries / sizeof *entries; i++) {
    void* symbol = dlsym(library, entries[i].name);
    if (!symbol) return 0;
    memcpy(entries[i].pointer, &symbol, sizeof symbol); /* ISO C converts no object pointer to a function's */
  }
  return 1;
}

static int says(cl_platform_id platform, cl_platform_info what, const char* wanted) {
  char text[512];
  size_t size = 0;
  if (platform_info(platform, what, sizeof text, text, &size) != CL_SUCCESS || size == 0) return 0;
  while (size && (text[size - 1] == 0 || text[size - 1] == ' ')) size--;
  return size == strlen(wanted) && memcmp(text, wanted, size) == 0;
}

static cl_device_id find_device(const char* name, const char* version, unsigned long number) {
  cl_platform_id platforms[32];
  cl_device_id devices[128];
  cl_uint count = 0, found = 0, i;
  if (platform_ids(32, platforms, &count) != CL_SUCCESS) return NULL;
  for (i = 0; i < count && i < 32; i++) {
    if (!says(platforms[i], CL_PLATFORM_NAME, name) || !says(platforms[i], CL_PLATFORM_VERSION, version)) continue;
    if (device_ids(platforms[i], CL_DEVICE_TYPE_ALL, 128, devices, &found) != CL_SUCCESS) return NULL;
    return number < found && number < 128 ? devices[number] : NULL;
  }
  return NULL;
}

static int read_all(void* data, size_t bytes) {
  char* at = data;
  while (bytes) {
    const ssize_t got = read(0, at, bytes);
    if (got <= 0) return 0;
    at += got;
    bytes -= (size_t)got;
  }
  return 1;
}

static int answer(char byte) { return write(0, &byte, 1) == 1; }

/* Whether the driver built it.  `kind` 0: source, 1: a binary. */
static int compiled(cl_context context, cl_device_id device, uint64_t kind, const char* text, size_t size,
                    const char* options) {
  cl_int code = CL_SUCCESS, status = CL_SUCCESS;
  const unsigned char* binary = (const unsigned char*)text;
  cl_program program = kind == 0 ? from_source(context, 1, &text, &size, &code)
                                 : from_binary(context, 1, &device, &size, &binary, &status, &code);
  if (!program || code != CL_SUCCESS) return 0;
  code = build(program, 1, &device, options, NULL, NULL);
  release(program);
  return code == CL_SUCCESS;
}

int main(int argc, char** argv) {
  cl_device_id device;
  cl_context context;
  cl_int code = CL_SUCCESS;
  struct pollfd socket = {0, POLLIN, 0};
  if (argc != 5) {
    fprintf(stderr, "usage: pylayout-compiler LIBRARY PLATFORM VERSION DEVICE (started by libpylayout)\n");
    return 2;
  }
  if (!open_library(argv[1])) return 1;
  device = find_device(argv[2], argv[3], strtoul(argv[4], NULL, 10));
  if (!device) return 1;
  context = create_context(NULL, 1, &device, NULL, NULL, &code);
  if (!context || code != CL_SUCCESS || !answer('r')) return 1;
  while (poll(&socket, 1, IDLE_MS) == 1) {
    uint64_t head[3]; /* kind, bytes of the program, bytes of the options */
    char* text;
    int good;
    if (!read_all(head, sizeof head) || head[1] > MOST_BYTES || head[2] > MOST_BYTES) break;
    text = malloc((size_t)(head[1] + head[2] + 2));
    if (!text || !read_all(text, (size_t)head[1]) || !read_all(text + head[1] + 1, (size_t)head[2])) break;
    text[head[1]] = text[head[1] + 1 + head[2]] = 0;
    good = compiled(context, device, head[0], text, (size_t)head[1], text + head[1] + 1);
    free(text);
    if (!answer(good ? 'b' : 'f')) break;
  }
  _exit(0); /* drivers' handlers at exit take longer than the rest, and nothing is left to save */
}
