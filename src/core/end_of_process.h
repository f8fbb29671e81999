// What is done when the process ends, before the libraries go that threads may still be working in: a driver must not
// be torn down around its own call.
//
// std::atexit alone comes too late.  What is registered last is called first, and libraries register the destructors
// of objects that they make on the way: LLVM, when it compiles its first kernel.  Thread-local objects of the thread
// that ends the process go before all of these ([basic.start.term]), so each call into the library leaves one.
#pragma once

namespace pl {

// Calls `action` once when the process ends by exit() or by returning from main(), the last added first: by the main
// thread's thread-local object where it has passed here, else by std::atexit.  It throws nothing.  It is called in
// forked children, too, where it must wait for nothing of the parent's.
void add_end_of_process(void (*action)());

// Of every call from outside.
void pass_into_library();

}  // namespace pl
