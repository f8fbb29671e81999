#include "graph/live.h"

namespace pl {

void Plan::Live::settle(End how) {
  if (how == End::found || how == End::failed) plan_.remember_live(how == End::found);
  plan_.release_constants();
  if (how != End::none) plan_.home_->release_cache();
  pinned_ = how == End::pinned;
  settled_.store(true, std::memory_order_release);
}

}  // namespace pl
