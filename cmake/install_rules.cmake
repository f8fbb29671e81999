# Where things go. Component `python`: the wheel's package. Component `embed`: a normal prefix for a C embedder; a plain
# build has only that one.

if(SKBUILD)
  # libpylayout lies beside _core in the package. Of the folders above it, libdnnl's is
  #   ../../..         lib/python3.x/site-packages/pylayout, as in virtual environments, --user and dist-packages,
  #   ../../../../lib  where site-packages lies in lib64.
  set_target_properties(pylayout_wheel PROPERTIES
                        INSTALL_RPATH "$ORIGIN;$ORIGIN/../../..;$ORIGIN/../../../../lib")
  install(TARGETS pylayout_wheel LIBRARY DESTINATION pylayout COMPONENT python NAMELINK_SKIP)
  install(TARGETS pylayout_compiler RUNTIME DESTINATION pylayout COMPONENT python)
  set_target_properties(pylayout_core PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS pylayout_core LIBRARY DESTINATION pylayout COMPONENT python)
  # What is compiled for the PyTorch that a user has (pylayout/ocl/build.py).
  install(FILES src/pylayout.h DESTINATION pylayout/ocl/shim COMPONENT python)
endif()

include(CMakePackageConfigHelpers)
# The oneDNN that was linked is found by its own path: an embedder's prefix usually holds none.
set(pl_run_path "$ORIGIN")
if(PYLAYOUT_ONEDNN)
  list(APPEND pl_run_path "${OneDNN_LIBRARY_DIR}")
endif()
set_target_properties(pylayout PROPERTIES INSTALL_RPATH "${pl_run_path}")
install(TARGETS pylayout EXPORT pylayout
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT embed NAMELINK_COMPONENT embed)
install(TARGETS pylayout_compiler RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/pylayout COMPONENT embed)
install(FILES src/pylayout.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT embed)
# Tables of costs, which the package holds as they are (src/dispatch/cost_tables.cpp looks in both places).
install(DIRECTORY pylayout/costs DESTINATION ${CMAKE_INSTALL_LIBDIR}/pylayout COMPONENT embed FILES_MATCHING PATTERN "*.costs")

set(pl_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pylayout)
install(EXPORT pylayout NAMESPACE pylayout:: DESTINATION ${pl_package_dir} FILE pylayout-config.cmake COMPONENT embed)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/pylayout-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/pylayout-config-version.cmake" DESTINATION ${pl_package_dir} COMPONENT embed)

# The prefix is told relative to the file's own place, so that an installed tree can be moved.
file(RELATIVE_PATH pl_pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" pl_pc_prefix "${pl_pc_prefix}")
configure_file(cmake/pylayout.pc.in pylayout.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/pylayout.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT embed)
