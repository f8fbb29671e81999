// Device: where memory lives and work is queued.
//
// Work on one device is ordered: what is started later sees what was started earlier.  `cpu` runs work at
// once; an OpenCL device queues it, and only read, finish, synchronize and Timing::milliseconds wait for it.  Work that
// shares no memory may be put on streams of its own (core/stream.h).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/stream.h"

namespace pl {

// Measures the work started on a device between its creation (Device::start_timing) and stop(), by the
// device's own clock where it has one.
class Timing {
 public:
  virtual ~Timing() = default;
  virtual void stop() = 0;              // no more work belongs to it; does not wait
  virtual double milliseconds() = 0;    // waits for the work; the time the device spent on it
  virtual bool done() { return true; }  // after stop(): whether milliseconds() would return at once
};

// What a device is and can do.  Dispatch and graph ask for these, never for a device's name or provider.
struct DeviceTraits {
  bool threads = false;           // kernels run on the pool of threads (core/threads.h), prepared for a number of them
  bool host_addressable = false;  // buffers have host pointers that host code may use between operations
  bool queued = false;            // starting work returns before it is done; false: it is done then
  bool compiles = false;          // kernels are compiled when they are prepared, which takes longer than all else
  bool gpu = false;
  bool halves = false;  // values held as f16 save time; false: only where there are products of them
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;

  const std::string& name() const { return name_; }  // "cpu", "opencl:0"
  const DeviceTraits& traits() const { return traits_; }
  // Everything that costs depend on: device, driver and its version, ISA, core count.  Stable across processes.
  virtual std::string fingerprint() const = 0;
  // Shown to people and programs: name, vendor, driver, limits, features, as text values.
  virtual std::map<std::string, std::string> properties() const = 0;
  // What a GPU can do, as it describes itself: multiplications and additions of f32 in a millisecond, at most.  0: unknown.
  virtual double peak_flops_per_ms() const { return 0; }
  // How many threads are worth preparing kernels with.
  virtual int builders() const;
  // Whether other threads compile kernels that calls wait for (Building::behind).
  virtual bool compiles_behind() const { return false; }

  // A pooled buffer of at least `bytes`, contents undefined.  Throws Error(out_of_memory).
  BufferRef allocate(size_t bytes);
  MemoryStatistics memory() const { return pool_->statistics(); }
  void reset_memory_peaks() { pool_->reset_peaks(); }
  void release_cache() { pool_->release_cache(); }
  void set_memory_limit(size_t bytes) { pool_->set_limit(bytes); }

  // Between host memory and a buffer of this device; blocking, after all earlier work on the device.
  virtual void read(Buffer& source, size_t offset, void* destination, size_t bytes) = 0;
  virtual void write(Buffer& destination, size_t offset, const void* source, size_t bytes) = 0;
  virtual void fill_zero(Buffer& destination, size_t offset, size_t bytes) = 0;
  // Queued as kernels are: `bytes` from one buffer of this device to another place that does not overlap it.
  virtual void copy(Buffer& source, size_t source_offset, Buffer& destination, size_t destination_offset,
                    size_t bytes) = 0;
  // Queued too: single units of 1, 2, 4 or 8 bytes, a few hundred of them, at byte offsets that are multiples of the
  // unit.  gather copies them to another buffer of this device, one after another; set gives them all bits.
  virtual void gather_places(Buffer& source, const std::vector<size_t>& offsets, size_t unit, Buffer& destination,
                             size_t destination_offset);
  virtual void set_places(Buffer& destination, const std::vector<size_t>& offsets, size_t unit);
  virtual void prepare_places() {}  // compiles what these need, which their first use would do
  // As copy, from a buffer of another device, straight, after all earlier work on both.  False where it cannot be done
  // so: then nothing was done.
  virtual bool take(Buffer& source, size_t source_offset, Buffer& destination, size_t destination_offset, size_t bytes);
  virtual void synchronize() = 0;              // all streams
  virtual void finish() { synchronize(); }     // the calling thread's stream
  virtual StreamRef make_stream();             // another one; its queue is used again when the last reference goes
  virtual StreamRef stream();                  // the calling thread's
  virtual size_t queue_number() { return 0; }  // of that stream: two streams of one device have different ones
  virtual std::unique_ptr<Timing> start_timing() = 0;

  // A part of a buffer of a host-addressable device, from `offset` on, as a buffer of its own that keeps the whole
  // alive.  Throws Error(internal) for other devices: docs/explanation/planning.md says why not sub-buffers.
  BufferRef part(const BufferRef& whole, size_t offset, size_t bytes);

  // A buffer over somebody else's memory on this device, by its handle (an OpenCL device's cl_mem, retained as
  // long as the buffer lives).  Throws Error(device) where memory has no handles.
  virtual BufferRef borrow_handle(void* handle);

  // As read and write, but queued as kernels are where the device queues its work: the host memory must be there, and
  // what is written must stay as it is, until that is done (Stream::record).
  virtual void read_later(Buffer& source, size_t offset, void* destination, size_t bytes);
  virtual void write_later(Buffer& destination, size_t offset, const void* source, size_t bytes);
  // Memory of `host`, contents undefined, which this device reads and writes without copying it first, where its driver
  // can: a queued transfer then takes none of the host's time.  Throws Error(out_of_memory).
  virtual BufferRef allocate_pinned(Device& host, size_t bytes);

 protected:
  Device(std::string name, const DeviceTraits& traits, RawMemory raw);
  void set_traits(const DeviceTraits& traits) { traits_ = traits; }  // before the device is used

 private:
  std::string name_;
  DeviceTraits traits_;
  std::shared_ptr<Pool> pool_;
};

// Copies bytes between buffers of any two devices, after all earlier work on them; the places may overlap.  Straight
// where the devices can, through host memory, piece by piece, where nothing else exists.
void transfer(Buffer& source, size_t source_offset, Buffer& destination, size_t destination_offset, size_t bytes);

// The host processor.  There is one for each context.
std::shared_ptr<Device> make_cpu_device();

}  // namespace pl
