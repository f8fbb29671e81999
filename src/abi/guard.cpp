#include "abi/guard.h"

#include <cstring>
#include <new>

#include "core/interrupt.h"

namespace pl::abi {

namespace {

// Of fixed size: keeping the message of an out-of-memory error must not need memory.
constexpr size_t kMessageBytes = 4096;
thread_local char message[kMessageBytes] = "";

void keep(const char* text) noexcept {
  size_t length = std::strlen(text);
  if (length >= kMessageBytes) {
    length = kMessageBytes - 1;
    while (length && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;  // not inside a character
  }
  std::memcpy(message, text, length);
  message[length] = '\0';
}

}  // namespace

pl_status keep_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    keep(error.what());
    // A defect that threw Error(ok) must not look like success.
    return error.code() == Code::ok ? PL_ERROR_INTERNAL : static_cast<pl_status>(error.code());
  } catch (const Interrupted& stop) {
    keep(stop.what());
    return PL_ERROR_INTERRUPTED;
  } catch (const std::bad_alloc&) {
    keep("the host has no memory left for the library's own records");
    return PL_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    keep(error.what());
    return PL_ERROR_INTERNAL;
  } catch (...) {
    keep("an exception of unknown type");
    return PL_ERROR_INTERNAL;
  }
}

const char* last_error() noexcept { return message; }

DType checked_dtype(const pl_dtype& dtype, const char* function) {
  static_assert(sizeof(pl_dtype) == sizeof(int));
  int value;
  std::memcpy(&value, &dtype, sizeof value);
  require(value >= 0 && value < kDTypeCount, Code::invalid_argument, function, ": dtype is ", value,
          ", expected one of pl_dtype (0 to ", kDTypeCount - 1, ")");
  return static_cast<DType>(value);
}

char* copied_string(const char* text, size_t length) {
  char* copy = static_cast<char*>(::operator new(length + 1));
  std::memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

}  // namespace pl::abi
