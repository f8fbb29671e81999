// Device: where memory lives and work is queued.
//
// Work on one device is ordered: what is started later sees what was started earlier.  `cpu` runs work at
// once; an OpenCL device queues it, and only read, synchronize and Timing::milliseconds wait for it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "core/memory.h"

namespace pl {

// Measures the work started on a device between its creation (Device::start_timing) and stop(), by the
// device's own clock where it has one.
class Timing {
 public:
  virtual ~Timing() = default;
  virtual void stop() = 0;            // no more work belongs to it; does not wait
  virtual double milliseconds() = 0;  // waits for the work; the time the device spent on it
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;

  const std::string& name() const { return name_; }  // "cpu", "opencl:0"
  bool is_cpu() const { return name_ == "cpu"; }
  // Everything that costs depend on: device, driver and its version, ISA, core count.  Stable across processes.
  virtual std::string fingerprint() const = 0;
  // Shown to people and programs: name, vendor, driver, limits, features, as text values.
  virtual std::map<std::string, std::string> properties() const = 0;
  // Whether properties() call it a "gpu".
  bool is_gpu() const;
  // How many threads are worth preparing kernels with.
  virtual int builders() const;
  // True when a Buffer of this device has a host pointer that host code may use between operations.
  virtual bool host_memory() const = 0;

  // A pooled buffer of at least `bytes`, contents undefined.  Throws Error(out_of_memory).
  BufferRef allocate(size_t bytes);
  MemoryStatistics memory() const { return pool_->statistics(); }
  void release_cache() { pool_->release_cache(); }
  void set_memory_limit(size_t bytes) { pool_->set_limit(bytes); }

  // Between host memory and a buffer of this device; blocking, after all earlier work on the device.
  virtual void read(Buffer& source, size_t offset, void* destination, size_t bytes) = 0;
  virtual void write(Buffer& destination, size_t offset, const void* source, size_t bytes) = 0;
  virtual void fill_zero(Buffer& destination, size_t offset, size_t bytes) = 0;
  // Queued as kernels are: the first `bytes` of one buffer of this device to another that does not overlap it.
  virtual void copy(Buffer& source, Buffer& destination, size_t bytes) = 0;
  virtual void synchronize() = 0;
  virtual std::unique_ptr<Timing> start_timing() = 0;

  // A part of a buffer of a device with host_memory(), from `offset` on, as a buffer of its own that keeps the whole
  // alive.  Throws Error(internal) for other devices: docs/explanation/planning.md says why not sub-buffers.
  BufferRef part(const BufferRef& whole, size_t offset, size_t bytes);

  // A buffer over somebody else's memory on this device, by its handle (an OpenCL device's cl_mem, retained as
  // long as the buffer lives).  Throws Error(device) where memory has no handles.
  virtual BufferRef borrow_handle(void* handle);

 protected:
  Device(std::string name, RawMemory raw);

 private:
  std::string name_;
  std::shared_ptr<Pool> pool_;
};

// The host processor.  There is one for each context.
std::shared_ptr<Device> make_cpu_device();

}  // namespace pl
