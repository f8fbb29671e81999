#include "graph/live.h"

namespace pl {

void Plan::Live::settle(End how) {
  if (how == End::found) plan_.remember_live(true);
  plan_.release_constants();
  if (how != End::none) plan_.home_->release_cache();
  pinned_ = how == End::pinned;
  settled_.store(true, std::memory_order_release);
}

}  // namespace pl
