// Runs of a plan whose past grows: one program for many lengths, and memory with room for more.
#include <algorithm>
#include <cstring>

#include "dispatch/runner.h"
#include "graph/sizes.h"

namespace pl {
namespace {

constexpr int64_t kLeastRoom = 64;    // places; a new program is made when they are used up
constexpr int64_t kPartOfLength = 8;  // beyond 8 times that: so small a part more, so that few places are unused

int64_t room_for(int64_t length) {
  int64_t step = kLeastRoom;
  while (step * 2 * kPartOfLength <= length) step *= 2;
  return (length + step - 1) / step * step;
}

Dims with(Dims shape, int dim, int64_t size) {
  shape[dim] = size;
  return shape;
}

// Rows of one tensor to another's, both row-major in host memory: `count` places from `from` on along `dim`.
struct Places {
  TensorRef tensor;
  int64_t room;  // places that its memory has
  int64_t from;
};

void copy_places(const Places& source, const Places& target, int dim, int64_t count) {
  const TensorDesc& desc = target.tensor->desc();
  size_t outer = 1, each = size_of(desc.dtype);
  for (int d = 0; d < dim; ++d) outer *= size_t(desc.shape[d]);
  for (int d = dim + 1; d < desc.rank(); ++d) each *= size_t(desc.shape[d]);
  const char* from = static_cast<const char*>(source.tensor->buffer()->host()) + size_t(source.from) * each;
  char* to = static_cast<char*>(target.tensor->buffer()->host()) + size_t(target.from) * each;
  if (!count || !each) return;
  for (size_t i = 0; i < outer; ++i)
    std::memcpy(to + i * size_t(target.room) * each, from + i * size_t(source.room) * each, size_t(count) * each);
}

}  // namespace

int64_t Plan::Sizes::room_of(const TensorRef& past, int dim) {
  Room room;
  {
    std::lock_guard<std::mutex> guard(lock_);
    const auto found = rooms_.find(past->buffer().get());
    if (found == rooms_.end() || found->second.buffer.lock() != past->buffer()) return 0;
    room = found->second;
  }
  const TensorDesc& desc = past->desc();
  if (desc.offset || !desc.layout.is_plain() || desc.shape[dim] > room.places) return 0;
  const Dims whole = with(desc.shape, dim, room.places);
  const TensorDesc view = TensorDesc::strided(desc.dtype, desc.shape, TensorDesc::dense(desc.dtype, whole).strides);
  return same_memory(desc, view) ? room.places : 0;
}

TensorRef Plan::Sizes::roomy(const TensorRef& past, int dim, int64_t capacity) {
  const TensorDesc& desc = past->desc();
  const int64_t length = desc.shape[dim], room = std::max(room_of(past, dim), int64_t(0));
  const TensorRef made = Tensor::allocate(*plan_.home_, TensorDesc::dense(desc.dtype, with(desc.shape, dim, capacity)));
  std::memset(made->buffer()->host(), 0, made->desc().size_bytes());
  TensorRef source = past;
  const TensorDesc dense = TensorDesc::dense(desc.dtype, desc.shape);
  if (!room && (&past->device() != plan_.home_ || !same_memory(desc, dense)))
    source = plan_.context_->runner().convert(past, *plan_.home_, dense, "activation", "plan: a past", false);
  copy_places({source, room ? room : length, 0}, {made, capacity, 0}, dim, length);
  std::lock_guard<std::mutex> guard(lock_);
  for (auto it = rooms_.begin(); it != rooms_.end();)
    it = it->second.buffer.expired() ? rooms_.erase(it) : std::next(it);
  rooms_[made->buffer().get()] = {made->buffer(), capacity, length};
  return made;
}

Plan::Sizes::Claim Plan::Sizes::claim(const TensorRef& room, int64_t length, int64_t added) {
  std::lock_guard<std::mutex> guard(lock_);
  Room& of = rooms_[room->buffer().get()];
  if (length + added > of.places) {
    if (of.used != length && of.used != of.places) return Claim::none;
    of.used = of.places;  // nobody writes there any more
    return Claim::reads;
  }
  if (of.used != length) return Claim::none;
  of.used = length + added;
  return Claim::writes;
}

Plan::Sizes::Kept Plan::Sizes::grown_at(const std::vector<TensorRef>& inputs, int64_t capacity) {
  Shapes shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Dims shape = inputs[i]->desc().shape;
    for (const GrowingInput& input : growing_.inputs)
      if (input.input == i) shape[input.dim] = capacity;
    shapes.insert(shapes.end(), shape.begin(), shape.end());
    shapes.push_back(-1);
  }
  shapes.push_back(-2);  // for many lengths
  if (Kept known = find(shapes); known.plan) return known;
  const std::map<std::string, int64_t> sizes = sizes_of(inputs);
  std::lock_guard<std::mutex> making(making_);
  if (Kept known = find(shapes); known.plan) return known;
  try {
    auto grown = std::make_shared<GrownGraph>(sources_.front(), growing_, sizes, capacity);
    make(grown->graph(), shapes, grown);
  } catch (const Error& error) {
    if (error.code() != Code::unsupported && error.code() != Code::shape) throw;
    std::lock_guard<std::mutex> guard(lock_);
    why_not_growing_ = error.what();
    return {};
  }
  return find(shapes);
}

std::optional<std::vector<TensorRef>> Plan::Sizes::run_growing(const std::vector<TensorRef>& inputs) {
  if (growing_.inputs.empty() || !plan_.home_->traits().host_addressable) return std::nullopt;
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (!why_not_growing_.empty()) return std::nullopt;
  }
  int64_t length = -1, room = -1;
  bool ours = false;
  for (const GrowingInput& input : growing_.inputs) {
    const TensorRef& past = inputs[input.input];
    if (!past || past->desc().rank() <= input.dim) return std::nullopt;  // which says why
    const int64_t own = past->desc().shape[input.dim], places = room_of(past, input.dim);
    if (length >= 0 && own != length) return std::nullopt;
    length = own;
    room = room < 0 || room == places ? places : 0;
    ours = ours || places;
  }
  if (length < 1 || (!ours && !are_others(inputs))) return std::nullopt;
  sizes_of(inputs);  // throws where they do not fit
  if (!room) room = room_for(length + 1);
  const Kept program = grown_at(inputs, room);
  if (!program.plan) return std::nullopt;
  const GrownGraph& grown = *program.grown;
  const int64_t added = grown.added(), total = length + added;
  std::vector<TensorRef> given = inputs;
  std::vector<bool> writes;
  for (const GrowingInput& input : growing_.inputs) {
    TensorRef& past = given[input.input];
    Claim may = Claim::none;
    if (room_of(past, input.dim) == room) {
      may = claim(past, length, added);
      const Dims shape = with(past->desc().shape, input.dim, room);
      if (may != Claim::none)
        past = std::make_shared<Tensor>(TensorDesc::dense(past->desc().dtype, shape), past->buffer());
    }
    if (may == Claim::none) {
      past = roomy(past, input.dim, room);
      may = claim(past, length, added);
    }
    writes.push_back(may == Claim::writes);
  }
  for (const TensorRef& feed : grown.feeds(length, *plan_.home_)) given.push_back(feed);
  std::vector<TensorRef> results = program.plan->run_now(given, {});
  for (size_t k = 0; k < growing_.inputs.size(); ++k) {
    const GrowingInput& input = growing_.inputs[k];
    TensorRef &result = results[input.output], &past = given[input.input];
    const int64_t places = writes[k] ? room : room_for(total);
    if (!writes[k]) {
      const Dims used = with(past->desc().shape, input.dim, length);
      const TensorDesc desc = TensorDesc::strided(past->desc().dtype, used, past->desc().strides);
      past = roomy(std::make_shared<Tensor>(desc, past->buffer()), input.dim, places);
      claim(past, length, added);
    }
    copy_places({result, added, 0}, {past, places, length}, input.dim, added);
    result = std::make_shared<Tensor>(
        TensorDesc::strided(past->desc().dtype, with(past->desc().shape, input.dim, total), past->desc().strides),
        past->buffer());
  }
  return results;
}

}  // namespace pl
