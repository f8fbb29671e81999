// Storages: blocks of device memory, and the addresses by which PyTorch tells them apart.
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <utility>

#include "later.h"
#include "shim.h"

namespace ocl {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kViews = 8;  // views that a block keeps: a weight is read in few shapes

// A range of addresses that hold nothing. A storage has a part of it as long as its memory, so that data_ptr() of two
// tensors are as far from each other as their elements, different storages do not meet, and a read by the host ends in
// a fault instead of in somebody's memory. docs/explanation/pytorch-device.md says what PyTorch does with them.
class Addresses {
 public:
  void* take(size_t bytes) {
    std::lock_guard<std::mutex> guard(lock_);
    const size_t size = rounded(bytes);
    if (!base_) reserve();
    auto found = by_size_.lower_bound(size);
    TORCH_CHECK_WITH(OutOfMemoryError, found != by_size_.end(), "ocl: no range of ", size, " addresses is left");
    const auto [length, start] = *found;
    by_size_.erase(found);
    free_.erase(start);
    if (length > size) add(start + size, length - size);
    return reinterpret_cast<void*>(start);
  }
  void give(void* address, size_t bytes) {
    std::lock_guard<std::mutex> guard(lock_);
    uintptr_t start = reinterpret_cast<uintptr_t>(address);
    size_t size = rounded(bytes);
    auto after = free_.lower_bound(start);
    if (after != free_.end() && after->first == start + size) {
      size += after->second;
      remove(after++);
    }
    if (after != free_.begin()) {
      auto before = std::prev(after);
      if (before->first + before->second == start) {
        start = before->first;
        size += before->second;
        remove(before);
      }
    }
    add(start, size);
  }

 private:
  // One page more than the memory: the ends of two storages differ, too.
  static size_t rounded(size_t bytes) { return (bytes + kPage) / kPage * kPage + kPage; }

  void reserve() {
    for (int bits = 44; bits >= 36 && !base_; --bits) {  // less where the process may not have so many
      void* range = mmap(nullptr, size_t(1) << bits, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) continue;
      base_ = range;
      add(reinterpret_cast<uintptr_t>(range), size_t(1) << bits);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, base_, "ocl: no range of addresses could be reserved (see ulimit -v)");
  }
  void add(uintptr_t start, size_t size) {
    free_[start] = size;
    by_size_.emplace(size, start);
  }
  void remove(std::map<uintptr_t, size_t>::iterator each) {
    for (auto [at, end] = by_size_.equal_range(each->second); at != end; ++at)
      if (at->second == each->first) {
        by_size_.erase(at);
        break;
      }
    free_.erase(each);
  }

  std::mutex lock_;
  void* base_ = nullptr;
  std::map<uintptr_t, size_t> free_;  // lengths by starts
  std::multimap<size_t, uintptr_t> by_size_;
};

Addresses& addresses() {
  static auto* self = new Addresses;
  return *self;
}

// Blocks that are there, by their addresses.
struct Live {
  std::mutex lock;
  std::map<uintptr_t, Block*> blocks;
};

Live& live() {
  static auto* self = new Live;
  return *self;
}

// Small blocks that storages gave back, by device and size. The next storage of the size has one as it is, with its
// address and its views: most ops give tensors of sizes that were there before, and a block costs more than its use.
class Spare {
 public:
  // To what a size is rounded of which blocks are kept; 0 where none are.
  static size_t rounded(size_t bytes) { return bytes <= kLargest ? (bytes + kUnit - 1) / kUnit * kUnit : 0; }

  std::unique_ptr<Block> take(c10::DeviceIndex device, size_t size) {
    std::lock_guard<std::mutex> guard(lock_);
    if (size_t(device) >= shelves_.size()) return nullptr;
    std::vector<std::unique_ptr<Block>>& shelf = shelves_[size_t(device)].by_size[size / kUnit];
    if (shelf.empty()) return nullptr;
    std::unique_ptr<Block> block = std::move(shelf.back());
    shelf.pop_back();
    shelves_[size_t(device)].bytes -= size;
    return block;
  }
  // Null where it is kept.
  std::unique_ptr<Block> give(std::unique_ptr<Block> block) {
    if (rounded(block->bytes()) != block->bytes()) return block;
    const auto device = size_t(block->device());
    std::lock_guard<std::mutex> guard(lock_);
    if (device >= shelves_.size()) shelves_.resize(device + 1);
    Shelves& own = shelves_[device];
    if (own.bytes + block->bytes() > kMost) return block;
    own.bytes += block->bytes();
    own.by_size[block->bytes() / kUnit].push_back(std::move(block));
    return nullptr;
  }
  size_t bytes(c10::DeviceIndex device) {
    std::lock_guard<std::mutex> guard(lock_);
    return size_t(device) < shelves_.size() ? shelves_[size_t(device)].bytes : 0;
  }
  void release() {
    std::vector<Shelves> gone;
    std::lock_guard<std::mutex> guard(lock_);
    gone.swap(shelves_);
  }

 private:
  static constexpr size_t kUnit = 512, kLargest = size_t(1) << 20, kMost = size_t(32) << 20;
  struct Shelves {
    std::vector<std::vector<std::unique_ptr<Block>>> by_size =
        std::vector<std::vector<std::unique_ptr<Block>>>(kLargest / kUnit + 1);
    size_t bytes = 0;
  };
  std::mutex lock_;
  std::vector<Shelves> shelves_;  // by device
};

Spare& spare() {
  static auto* self = new Spare;
  return *self;
}

// Free blocks that storages gave back: they hold no memory, but an address, which takes as long to find as memory.
class SpareFree {
 public:
  std::unique_ptr<Block> take(c10::DeviceIndex device, size_t bytes) {
    std::lock_guard<std::mutex> guard(lock_);
    const auto found = blocks_.find({device, bytes});
    if (found == blocks_.end()) return nullptr;
    std::unique_ptr<Block> block = std::move(found->second.back());
    found->second.pop_back();
    if (found->second.empty()) blocks_.erase(found);
    --count_;
    return block;
  }
  void give(std::unique_ptr<Block> block) {
    block->clear();
    std::map<Key, std::vector<std::unique_ptr<Block>>> gone;
    std::lock_guard<std::mutex> guard(lock_);
    if (count_ == kMost) {
      gone.swap(blocks_);
      count_ = 0;
    }
    blocks_[{block->device(), block->bytes()}].push_back(std::move(block));
    ++count_;
  }

 private:
  static constexpr size_t kMost = 4096;
  using Key = std::pair<c10::DeviceIndex, size_t>;
  std::mutex lock_;
  std::map<Key, std::vector<std::unique_ptr<Block>>> blocks_;
  size_t count_ = 0;
};

SpareFree& spare_free() {
  static auto* self = new SpareFree;
  return *self;
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex device = current_device();
    const c10::Device where(kDevice, device);
    if (bytes == 0) {
      device_name(device);  // throws where there is no such device
      return {nullptr, where};
    }
    const size_t size = Spare::rounded(bytes);
    std::unique_ptr<Block> block = size ? spare().take(device, size) : nullptr;
    if (!block) block = std::make_unique<Block>(device, size ? size : bytes, Block::Memory::now);
    void* address = block->address();
    return {address, block.release(), &remove, where};
  }
  static void remove(void* block) {
    if (is_forked()) return;  // nothing is given back, and a lock that a thread of the parent held is held for ever
    std::unique_ptr<Block> own(static_cast<Block*>(block));
    if (own->is_shared()) return;  // who has a view of its memory keeps that
    if (own->is_free())
      spare_free().give(std::move(own));
    else
      own = spare().give(std::move(own));
  }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "ocl: the bytes of a storage are copied by tensors over it");
  }
};

int64_t bytes_of(pl_dtype dtype) {
  static constexpr int64_t bytes[] = {4, 2, 2, 1, 1, 4, 8, 1};
  return bytes[dtype];
}

Handle allocated(c10::DeviceIndex device, size_t bytes) {
  pl_tensor made = nullptr;
  pl_status status = pl_tensor_allocate(context(), device_name(device), bytes, &made);
  if (status == PL_ERROR_OUT_OF_MEMORY && spare().bytes(device)) {
    release_spare();
    status = pl_tensor_allocate(context(), device_name(device), bytes, &made);
  }
  check(status);
  return Handle(made);
}

}  // namespace

Block::Block(c10::DeviceIndex device, size_t bytes, Memory memory)
    : device_(device), bytes_(bytes), free_(memory == Memory::free), address_(addresses().take(bytes)) {
  try {
    if (!free_) memory_ = allocated(device, bytes);
  } catch (...) {
    addresses().give(address_, bytes);
    throw;
  }
  std::lock_guard<std::mutex> guard(live().lock);
  live().blocks[reinterpret_cast<uintptr_t>(address_)] = this;
}

Block::~Block() {
  {
    std::lock_guard<std::mutex> guard(live().lock);
    live().blocks.erase(reinterpret_cast<uintptr_t>(address_));
  }
  addresses().give(address_, bytes_);
}

bool Block::View::is(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) const {
  const size_t rank = sizes.size();
  return key.size() == 2 + 2 * rank && key[0] == dtype && key[1] == offset &&
         std::equal(sizes.begin(), sizes.end(), key.begin() + 2) &&
         std::equal(strides.begin(), strides.end(), key.begin() + 2 + int64_t(rank));
}

Block::View Block::view_as(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  View view{{int64_t(dtype), offset}, {}};
  view.key.append(sizes.begin(), sizes.end());
  view.key.append(strides.begin(), strides.end());
  return view;
}

const Block::View& Block::made(View view) {
  const size_t rank = view.key.size() / 2 - 1;
  const int64_t* sizes = view.key.data() + 2;
  pl_tensor made = nullptr;
  check(pl_tensor_view(memory_.get(), pl_dtype(view.key[0]), int32_t(rank), sizes, sizes + rank, view.key[1], &made));
  view.tensor = Handle(made);
  if (views_.size() == kViews) views_.erase(views_.begin());
  views_.push_back(std::move(view));
  return views_.back();
}

Handle Block::view(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, bool placed) {
  std::lock_guard<std::mutex> guard(lock_);
  number_ = nullptr;
  if (!memory_.get()) {
    if (!placed && given_.is(dtype, sizes, strides, offset)) return given_.tensor;
    place_locked();
  }
  for (size_t i = views_.size(); i-- > 0;)
    if (views_[i].is(dtype, sizes, strides, offset)) {
      if (i + 1 < views_.size())
        std::rotate(views_.begin() + int64_t(i), views_.begin() + int64_t(i) + 1, views_.end());
      return views_.back().tensor;
    }
  return made(view_as(dtype, sizes, strides, offset)).tensor;
}

void Block::adopt(Handle given, pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  pl_tensor_info info;
  check(pl_tensor_describe(given.get(), &info));
  std::lock_guard<std::mutex> guard(lock_);
  given_ = view_as(dtype, sizes, strides, 0);
  given_.tensor = std::move(given);
  bool lies_so = info.offset == 0 && info.storage_bytes == bytes_ && !std::strpbrk(info.layout, "0123456789");
  for (size_t i = 0; i < sizes.size(); ++i) lies_so = lies_so && (sizes[i] == 1 || info.strides[i] == strides[i]);
  if (!lies_so) return;
  memory_ = given_.tensor;
  views_.push_back(std::move(given_));
  given_ = {};
}

int64_t place_parts(PartForms& forms) {
  constexpr int64_t kAligned = 256;  // for any dtype and any vector
  int64_t bytes = 0;
  for (PartForm& form : forms) {
    form.offset = bytes;
    bytes += (form.bytes + kAligned - 1) / kAligned * kAligned;
  }
  return bytes;
}

void Block::adopt(std::vector<Handle> parts, std::shared_ptr<const PartForms> forms) {
  std::lock_guard<std::mutex> guard(lock_);
  parts_ = std::move(parts);
  part_forms_ = std::move(forms);
}

std::vector<Handle> Block::parts(const PartForms& forms) {
  std::lock_guard<std::mutex> guard(lock_);
  if (memory_.get() || !part_forms_) return {};
  TORCH_CHECK(*part_forms_ == forms, "ocl: a tensor carries ", part_forms_->size(), " tensors, expected ", forms.size(),
              " of the forms that its reader knows");
  return parts_;
}

void Block::keep(std::shared_ptr<EarlyNumber> number) {
  std::lock_guard<std::mutex> guard(lock_);
  number_ = std::move(number);
}

std::shared_ptr<EarlyNumber> Block::number() {
  std::lock_guard<std::mutex> guard(lock_);
  return number_;
}

void Block::place() {
  std::lock_guard<std::mutex> guard(lock_);
  if (!memory_.get()) place_locked();
}

void Block::place_locked() {
  memory_ = allocated(device_, bytes_);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const PartForm& form = (*part_forms_)[i];
    pl_tensor target = nullptr;
    check(pl_tensor_view(memory_.get(), form.dtype, int32_t(form.sizes.size()), form.sizes.data(), form.strides.data(),
                         form.offset / bytes_of(form.dtype), &target));
    const Handle held(target);
    check(pl_tensor_copy(parts_[i].get(), target));
  }
  parts_.clear();
  part_forms_ = nullptr;
  if (!given_.tensor.get()) return;
  const Handle given = std::exchange(given_.tensor, {});
  const Handle target = made(std::exchange(given_, {})).tensor;
  if (Batch::open()) {  // many gradients are placed one after another
    Operand operands[] = {{given}, {target, this}};
    Later::add(device_, "identity", nullptr, operands, 1, 1, nullptr);
  } else {
    check(pl_tensor_copy(given.get(), target.get()));
  }
}

void Block::clear() {
  number_ = nullptr;
  given_ = {};
  parts_.clear();
  part_forms_ = nullptr;
  views_.clear();
  memory_ = {};
}

c10::Storage free_storage(c10::DeviceIndex device, size_t bytes) {
  std::unique_ptr<Block> block = spare_free().take(device, bytes);
  if (!block) block = std::make_unique<Block>(device, bytes, Block::Memory::free);
  void* address = block->address();
  c10::DataPtr data{address, block.release(), &Allocator::remove, {kDevice, device}};
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data), allocator(), true);
}

size_t spare_bytes(c10::DeviceIndex device) { return spare().bytes(device); }
void release_spare() { spare().release(); }

c10::Allocator* allocator() {
  static auto* self = new Allocator;
  return self;
}

Handle Place::view(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) const {
  const Handle made = view_of_memory(dtype, sizes, strides, offset);
  Later::before_write(block);
  return made;
}

Handle Place::view_of_memory(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset,
                             bool placed) const {
  const int64_t size = bytes_of(dtype);
  TORCH_CHECK(bytes % size == 0, "ocl: memory that begins at byte ", bytes, " of a storage, expected a multiple of ",
              size);
  return block->view(dtype, sizes, strides, offset + bytes / size, placed);
}

Place place_at(const void* address) {
  std::lock_guard<std::mutex> guard(live().lock);
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  auto after = live().blocks.upper_bound(at);
  if (after != live().blocks.begin()) {
    const auto [start, block] = *std::prev(after);
    if (at <= start + block->bytes()) return {block, int64_t(at - start)};
  }
  return {};
}

Place place_of(const at::Tensor& tensor) {
  const c10::DataPtr& data = tensor.storage().data_ptr();
  if (data.get_deleter() == &Allocator::remove && data.get_context())
    return {static_cast<Block*>(data.get_context()), 0};
  const Place found = place_at(data.get());  // PyTorch makes storages of addresses, to save a tensor for instance
  TORCH_CHECK(found.block, "ocl: a tensor of shape ", tensor.sizes(), " has no memory on the device");
  return found;
}

std::optional<pl_dtype> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return PL_F32;
    case at::kHalf: return PL_F16;
    case at::kBFloat16: return PL_BF16;
    case at::kChar: return PL_S8;
    case at::kByte: return PL_U8;
    case at::kInt: return PL_S32;
    case at::kLong: return PL_S64;
    case at::kBool: return PL_BOOL;
    default: return std::nullopt;
  }
}

namespace {

// `placed`: over memory that its storage keeps.
Operand operand_as_it_lies(const at::Tensor& tensor, bool placed) {
  const std::optional<pl_dtype> dtype = dtype_of(tensor.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(dtype, "ocl: dtype ", tensor.scalar_type(), " is kept and copied, not computed with");
  if (tensor.numel() == 0) {  // it needs no memory
    pl_tensor made = nullptr;
    const std::vector<int64_t> sizes = tensor.sizes().vec();
    check(pl_tensor_create(context(), device_name(tensor.get_device()), *dtype, int32_t(sizes.size()), sizes.data(),
                           nullptr, &made));
    return {Handle(made), nullptr};
  }
  const Place place = place_of(tensor);
  return {place.view_of_memory(*dtype, tensor.sizes(), tensor.strides(), tensor.storage_offset(), placed), place.block};
}

}  // namespace

Operand operand_of(const at::Tensor& tensor) { return operand_as_it_lies(tensor, false); }

Operand placed_operand_of(const at::Tensor& tensor) { return operand_as_it_lies(tensor, true); }

Handle view_of(const at::Tensor& tensor) {
  const Operand made = operand_of(tensor);
  Later::before_write(made.block);
  return made.tensor;
}

Handle placed_view_of(const at::Tensor& tensor) {
  const Operand made = placed_operand_of(tensor);
  Later::before_write(made.block);
  if (made.block) made.block->share();
  return made.tensor;
}

}  // namespace ocl
