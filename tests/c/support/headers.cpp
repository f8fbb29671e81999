// Nothing but headers, precompiled: the tests share them (tests/c/CMakeLists.txt).
