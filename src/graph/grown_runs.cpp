// Runs of a plan whose past grows: one program for many lengths, and memory with room for more.
#include <algorithm>

#include "dispatch/runner.h"
#include "graph/sizes.h"

namespace pl {
namespace {

constexpr int64_t kLeastRoom = 64;    // places; a new program is made when they are used up
constexpr int64_t kPartOfLength = 8;  // beyond 8 times that: so small a part more, so that few places are unused
constexpr size_t kMostAdded = 4096;   // sizes of the other inputs for which is kept how many places a run adds

int64_t room_for(int64_t length) {
  int64_t step = kLeastRoom;
  while (step * 2 * kPartOfLength <= length) step *= 2;
  return (length + step - 1) / step * step;
}

Dims with(Dims shape, int dim, int64_t size) {
  shape[dim] = size;
  return shape;
}

// A view of the first places.
TensorRef beginning_of(const TensorRef& room, int dim, int64_t places) {
  const TensorDesc& desc = room->desc();
  return std::make_shared<Tensor>(TensorDesc::strided(desc.dtype, with(desc.shape, dim, places), desc.strides),
                                  room->buffer());
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

TensorRef Plan::Sizes::roomy(const TensorRef& past, int dim, int64_t places) {
  const TensorDesc& desc = past->desc();
  const TensorRef made = Tensor::allocate(*plan_.home_, TensorDesc::dense(desc.dtype, with(desc.shape, dim, places)));
  plan_.home_->fill_zero(*made->buffer(), 0, made->desc().size_bytes());
  plan_.context_->runner().convert_into(past, beginning_of(made, dim, desc.shape[dim]), "plan: what grows");
  return made;
}

void Plan::Sizes::remember_room(const TensorRef& room, int dim, int64_t used) {
  std::lock_guard<std::mutex> guard(lock_);
  for (auto it = rooms_.begin(); it != rooms_.end();)
    it = it->second.buffer.expired() ? rooms_.erase(it) : std::next(it);
  rooms_[room->buffer().get()] = {room->buffer(), room->desc().shape[dim], used};
}

bool Plan::Sizes::claim(const TensorRef& past, int64_t length, int64_t added) {
  std::lock_guard<std::mutex> guard(lock_);
  Room& of = rooms_[past->buffer().get()];
  if (of.used != length || length + added > of.places) return false;
  of.used = length + added;
  return true;
}

std::shared_ptr<const Plan::Sizes::Grower> Plan::Sizes::grower() {
  std::lock_guard<std::mutex> guard(lock_);
  return grower_->growing.inputs.empty() || !why_not_growing_.empty() ? nullptr : grower_;
}

// As shapes_of, with another size of the axis that grows; what follows it by how much it is longer.
Plan::Sizes::Shapes Plan::Sizes::grown_shapes(const Growing& growing, const std::vector<TensorRef>& inputs,
                                              int64_t places) {
  Shapes shapes;
  const int64_t length = inputs[growing.inputs[0].input]->desc().shape[growing.inputs[0].dim];
  for (size_t i = 0; i < inputs.size(); ++i) {
    Dims shape = inputs[i]->desc().shape;
    for (const GrowingInput& input : growing.inputs)
      if (input.input == i) shape[input.dim] = places;
    for (const Place& follower : growing.followers)
      if (follower.input == i) shape[follower.dim] -= length;
    shapes.insert(shapes.end(), shape.begin(), shape.end());
    shapes.push_back(-1);
  }
  return shapes;
}

// What `make` returns; nothing, with the reason kept, where the graph is none for many lengths.  If it does not hold for
// these sizes, or served others before, that says nothing about it.
template <class Make>
auto Plan::Sizes::unless_refused(const Grower& grower, const std::map<std::string, int64_t>& sizes, const Make& make)
    -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != Code::unsupported && error.code() != Code::shape) throw;
    try {
      grower.source->bound(sizes);
    } catch (const Error&) {
      return std::nullopt;
    }
    std::lock_guard<std::mutex> guard(lock_);
    if (&grower == grower_.get() && !grows_) why_not_growing_ = error.what();
    return std::nullopt;
  }
}

void Plan::Sizes::check_growing() {
  const std::shared_ptr<const Grower> grower = this->grower();
  if (!grower) return;
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (grows_) return;
  }
  std::lock_guard<std::mutex> making(making_);
  const std::map<std::string, int64_t> sizes = grower->source->axes();
  unless_refused(*grower, sizes, [&] {
    const int64_t added = grower->growing.added(*grower->source, sizes);
    const GrownGraph grown(*grower->source, grower->growing, sizes, room_for(added + 2));
    std::lock_guard<std::mutex> guard(lock_);
    return grows_ = true;
  });
}

std::optional<int64_t> Plan::Sizes::added_by(const Grower& grower, const std::vector<TensorRef>& inputs) {
  const Shapes shapes = grown_shapes(grower.growing, inputs, 0);
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (const auto known = added_.find(shapes); known != added_.end()) return known->second;
  }
  const std::map<std::string, int64_t> sizes = sizes_of(inputs);
  std::lock_guard<std::mutex> making(making_);
  const auto added = unless_refused(grower, sizes, [&] { return grower.growing.added(*grower.source, sizes); });
  std::lock_guard<std::mutex> guard(lock_);
  if (added_.size() >= kMostAdded) added_.clear();
  if (added && &grower == grower_.get()) added_[shapes] = *added;
  return added;
}

Plan::Sizes::Kept Plan::Sizes::grown_at(const Grower& grower, const std::vector<TensorRef>& inputs, int64_t room) {
  Shapes shapes = grown_shapes(grower.growing, inputs, room);
  shapes.push_back(-2);  // for many lengths
  const auto known = [&] {
    Kept found = find(shapes);
    if (found.sparing) count_run(shapes, [grown = found.grown] { return grown->graph(); });
    return found;
  };
  if (Kept found = known(); found.plan) return found;
  const std::map<std::string, int64_t> sizes = sizes_of(inputs);
  std::lock_guard<std::mutex> making(making_);
  if (Kept found = known(); found.plan) return found;
  unless_refused(grower, sizes, [&] {
    auto grown = std::make_shared<GrownGraph>(*grower.source, grower.growing, sizes, room);
    make(grown->graph(), shapes, grown);
    std::lock_guard<std::mutex> guard(lock_);
    return grows_ = true;
  });
  return find(shapes);
}

std::optional<std::vector<TensorRef>> Plan::Sizes::run_growing(const std::vector<TensorRef>& inputs) {
  const std::shared_ptr<const Grower> grower = this->grower();
  if (!grower) return std::nullopt;
  const Growing& growing = grower->growing;
  int64_t length = -1, room = -1;
  bool ours = false;
  for (const TensorRef& input : inputs)
    if (!input) return std::nullopt;  // which says why
  for (const GrowingInput& input : growing.inputs) {
    const TensorRef& past = inputs[input.input];
    if (past->desc().rank() <= input.dim) return std::nullopt;  // the same
    const int64_t own = past->desc().shape[input.dim], places = room_of(past, input.dim);
    if (length >= 0 && own != length) return std::nullopt;
    length = own;
    room = room < 0 || room == places ? places : 0;
    ours = ours || places;
  }
  if (length < 1 || (!ours && !are_others(inputs))) return std::nullopt;
  sizes_of(inputs);  // throws where they do not fit
  for (const Place& follower : growing.followers)
    if (inputs[follower.input]->desc().shape[follower.dim] < length) return std::nullopt;
  const std::optional<int64_t> added = added_by(*grower, inputs);
  if (!added) return std::nullopt;
  const int64_t total = length + *added;
  if (room < total) room = room_for(total + 1);
  const Kept program = grown_at(*grower, inputs, room);
  if (!program.plan) return std::nullopt;
  const std::vector<TensorRef> feeds = program.grown->feeds(length, *plan_.home_);
  States states;
  std::vector<bool> grows(inputs.size(), false);
  for (const GrowingInput& input : growing.inputs) {
    grows[input.input] = true;
    TensorRef past = inputs[input.input];
    if (room_of(past, input.dim) == room && claim(past, length, *added)) {
      const TensorDesc& desc = past->desc();
      past = std::make_shared<Tensor>(TensorDesc::dense(desc.dtype, with(desc.shape, input.dim, room)), past->buffer());
    } else {
      past = roomy(past, input.dim, room);
      remember_room(past, input.dim, total);
    }
    states.now.push_back(std::move(past));
  }
  states.next.resize(states.now.size());
  std::vector<TensorRef> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (grows[i]) continue;
    given.push_back(inputs[i]);
    for (const Place& follower : growing.followers)
      if (follower.input == i)
        given.back() = roomy(given.back(), follower.dim,
                             given.back()->desc().shape[follower.dim] + program.grown->capacity() - length);
  }
  given.insert(given.end(), feeds.begin(), feeds.end());
  const std::vector<TensorRef> before = states.now;
  std::vector<TensorRef> others = program.plan->run_on(states, given, {});
  std::vector<TensorRef> results(others.size() + states.now.size());
  for (size_t k = 0; k < states.now.size(); ++k) {
    const GrowingInput& input = growing.inputs[k];
    if (states.now[k] != before[k]) remember_room(states.now[k], input.dim, total);  // it was not written in place
    results[input.output] = beginning_of(states.now[k], input.dim, total);
  }
  auto other = others.begin();
  for (TensorRef& result : results)
    if (!result) result = std::move(*other++);
  return results;
}

}  // namespace pl
