# Installs the files of `make install`, `make dist`, `make deb` and the wheel: programs, completions, manual page,
# headers, examples and texts, in the usual folders under a prefix.
set(described "${CMAKE_BINARY_DIR}/share")  # texts that the program prints about itself
add_custom_command(
  OUTPUT "${described}/fastkernels.1"
  COMMAND ${CMAKE_COMMAND} "-DPROGRAM=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:fastkernels>"
          "-DFOLDER=${described}" -P "${CMAKE_SOURCE_DIR}/cmake/write_share.cmake"
  DEPENDS fastkernels "${CMAKE_SOURCE_DIR}/cmake/write_share.cmake"
  COMMENT "Writing shell completions and the manual page"
  VERBATIM)
add_custom_target(fastkernels-share ALL DEPENDS "${described}/fastkernels.1")

foreach(name fastkernels kb_nano)
  install(FILES "${described}/fastkernels.bash" DESTINATION share/bash-completion/completions RENAME ${name})
  install(FILES "${described}/fastkernels.fish" DESTINATION share/fish/vendor_completions.d RENAME ${name}.fish)
endforeach()
install(FILES "${described}/fastkernels.1" DESTINATION share/man/man1)
install(DIRECTORY include/fastkernels DESTINATION include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY tasks/candidate/examples DESTINATION share/fastkernels)
install(FILES bench/ttft.yaml bench/ttft-tiny.yaml DESTINATION share/fastkernels/suites)
install(DIRECTORY docs DESTINATION share/doc/fastkernels)
install(FILES README.md LICENSE DESTINATION share/doc/fastkernels)
# Known only at installation: Debian's zsh reads the completions of packages from a separate folder.
install(CODE "set(described \"${described}\")")
install(CODE [[
  set(zsh "site-functions")
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(zsh "vendor-completions")
  endif()
  file(INSTALL "${described}/_fastkernels" DESTINATION "${CMAKE_INSTALL_PREFIX}/share/zsh/${zsh}")
  set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  file(CREATE_LINK fastkernels "${root}/bin/kb_nano" SYMBOLIC)
  file(CREATE_LINK fastkernels.1 "${root}/share/man/man1/kb_nano.1" SYMBOLIC)
]])

# Component `carried`: the libraries included in a tarball or a wheel, because other machines may lack them. The C and
# C++ libraries are not included: candidates are compiled against those of the machine, so the program must load the
# same. The old kind of runtime path (RPATH) also applies to dependencies of libraries.
set_target_properties(fastkernels fastkernels-runner PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/fastkernels")
target_link_options(fastkernels PRIVATE -Wl,--disable-new-dtags)
target_link_options(fastkernels-runner PRIVATE -Wl,--disable-new-dtags)
# libcurl is not linked but loaded, by the name that the linker would have written (src/track/curl/http_curl.cpp).
set(loaded "")
if(TARGET CURL::libcurl)
  find_library(FK_CURL_FILE NAMES curl curl-gnutls)
  mark_as_advanced(FK_CURL_FILE)
  get_filename_component(folder "${FK_CURL_FILE}" DIRECTORY)
  get_filename_component(file "${FK_CURL_FILE}" REALPATH)
  string(REGEX MATCH "lib[^/]*\\.so\\.[0-9]+" name "${file}")
  set(loaded "${folder}/${name}")
endif()
install(CODE "set(loaded \"${loaded}\")" COMPONENT carried EXCLUDE_FROM_ALL)
install(CODE [[
  set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  file(GET_RUNTIME_DEPENDENCIES RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
       EXECUTABLES "${root}/bin/fastkernels" "${root}/bin/fastkernels-runner" LIBRARIES ${loaded}
       PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|stdc\\+\\+|gcc_s|cuda|nvidia-.*)\\.so"
       POST_EXCLUDE_REGEXES "/lib/fastkernels/")
  list(APPEND found ${loaded})
  if(missing)
    message(FATAL_ERROR "These libraries are not on this machine: ${missing}")
  endif()
  # Each as one file with the name it is loaded by, since a wheel cannot contain links.
  foreach(library IN LISTS found)
    get_filename_component(name "${library}" NAME)
    get_filename_component(file "${library}" REALPATH)
    file(INSTALL "${file}" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/fastkernels" RENAME "${name}")
    # Its licence, if Debian's package manager finds the package of the file; it may list the file without /usr.
    string(REGEX REPLACE "^/usr" "" short "${file}")
    foreach(known "${file}" "${short}")
      execute_process(COMMAND dpkg-query --search "${known}" OUTPUT_VARIABLE owner ERROR_QUIET RESULT_VARIABLE failed)
      string(REGEX REPLACE ":.*" "" owner "${owner}")
      if(owner AND EXISTS "/usr/share/doc/${owner}/copyright")
        file(INSTALL "/usr/share/doc/${owner}/copyright" RENAME "${owner}.txt"
             DESTINATION "${CMAKE_INSTALL_PREFIX}/share/doc/fastkernels/licences")
      endif()
    endforeach()
  endforeach()
]] COMPONENT carried EXCLUDE_FROM_ALL)

# make dist: one folder that can be moved anywhere. make deb: for /usr, by the package manager.
set(CPACK_BUILD_FOLDER "${CMAKE_BINARY_DIR}")
set(CPACK_PACKAGE_VENDOR fastkernels)
set(CPACK_PACKAGE_CONTACT "fastkernels <fastkernels@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "judges and times compute kernels inside real models")
set(CPACK_PACKAGE_FILE_NAME "fastkernels-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # uses dpkg-shlibdeps to find the packages of the linked libraries
set(CPACK_DEBIAN_PACKAGE_DEPENDS "g++ (>= 4:12)")  # compiles candidates
if(TARGET CURL::libcurl)
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libcurl4 | libcurl4t64 | libcurl3-gnutls")  # not linked, as above
endif()
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "nvidia-cuda-toolkit, chromium")
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_SOURCE_DIR}/cmake/package_kinds.cmake")
include(CPack)
