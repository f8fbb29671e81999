# Toolchain: AArch64 Linux by Debian's cross compiler; programs run here in QEMU. See `make test-aarch64`.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)  # the OpenCL headers are the same
find_program(PL_QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(PL_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${PL_QEMU_AARCH64};-L;/usr/aarch64-linux-gnu")
endif()
