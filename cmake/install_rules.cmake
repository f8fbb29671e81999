# Where things go: a wheel holds the package alone; cmake --install gives a C embedder a normal prefix.
include(GNUInstallDirs)

# libpylayout lies beside _core in the package. Of the folders above it, libdnnl's is
#   ../../..       lib/python3.x/site-packages/pylayout, as in virtual environments, --user and dist-packages installs,
#   ../../../../lib  where site-packages lies in lib64.
# In a build tree CMake adds the folder of the oneDNN that was linked.
set(pl_wheel_runpath "$ORIGIN" "$ORIGIN/../../.." "$ORIGIN/../../../../lib")

if(SKBUILD)
  set_target_properties(pylayout PROPERTIES INSTALL_RPATH "${pl_wheel_runpath}")
  install(TARGETS pylayout LIBRARY DESTINATION pylayout)
  if(PYLAYOUT_PYTHON)
    set_target_properties(pylayout_core PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS pylayout_core LIBRARY DESTINATION pylayout)
  endif()
  return()
endif()

include(CMakePackageConfigHelpers)
# The oneDNN that was linked is found by its own path too: an embedder's prefix usually holds none.
set_target_properties(pylayout PROPERTIES INSTALL_RPATH "$ORIGIN;${OneDNN_LIBRARY_DIR}")
install(TARGETS pylayout EXPORT pylayout LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES src/pylayout.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(pl_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pylayout)
install(EXPORT pylayout NAMESPACE pylayout:: DESTINATION ${pl_package_dir} FILE pylayout-config.cmake)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/pylayout-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/pylayout-config-version.cmake" DESTINATION ${pl_package_dir})

# Relative to the file's own place, so that an installed prefix can be moved.
file(RELATIVE_PATH pl_pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" pl_pc_prefix "${pl_pc_prefix}")
configure_file(cmake/pylayout.pc.in pylayout.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/pylayout.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
