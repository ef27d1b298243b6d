# Read by CPack for each kind of package: a tarball contains its libraries, a Debian package depends on packages.
if(CPACK_GENERATOR STREQUAL "TGZ")
  set(CPACK_INSTALL_CMAKE_PROJECTS ${CPACK_BUILD_FOLDER} fastkernels ALL /
                                   ${CPACK_BUILD_FOLDER} fastkernels carried /)
elseif(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
endif()
