# The Debian packages: dfsmr-cli holds dcli, dfsmr holds dsrv. `make deb` builds them.
set(HERE ${CMAKE_SOURCE_DIR}/dsrv/debian)
set(MADE ${CMAKE_BINARY_DIR}/debian)

# Man pages say what --help says; completions are printed by dcli.
find_program(LOWDOWN lowdown)
set(MAN_PAGES ${MADE}/man/dcli.1.gz ${MADE}/man/dsrv.8.gz ${MADE}/man/dsrv.yaml.5.gz
  ${MADE}/man/dfsmr-machines.5.gz)
add_custom_command(OUTPUT ${MAN_PAGES}
  COMMAND /usr/bin/python3 ${HERE}/man.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
          ${CMAKE_SOURCE_DIR}/machines/README.md ${MADE}/man
  DEPENDS dsrv dcli ${HERE}/man.py ${CMAKE_SOURCE_DIR}/machines/README.md VERBATIM)
set(COMPLETIONS ${MADE}/dcli.bash ${MADE}/_dcli ${MADE}/dcli.fish)
add_custom_command(OUTPUT ${COMPLETIONS}
  COMMAND sh -c "$0 completion bash > dcli.bash && $0 completion zsh > _dcli && $0 completion fish > dcli.fish"
          $<TARGET_FILE:dcli>
  WORKING_DIRECTORY ${MADE} DEPENDS dcli ${MAN_PAGES} VERBATIM)
add_custom_command(OUTPUT ${MADE}/changelog.gz
  COMMAND sh -c "gzip -9n < $0 > changelog.gz" ${HERE}/changelog
  WORKING_DIRECTORY ${MADE} DEPENDS ${HERE}/changelog ${MAN_PAGES} VERBATIM)
add_custom_target(deb_files DEPENDS dsrv dcli ${MAN_PAGES} ${COMPLETIONS} ${MADE}/changelog.gz)

install(TARGETS dcli RUNTIME DESTINATION bin COMPONENT cli)
install(FILES ${MADE}/man/dcli.1.gz DESTINATION share/man/man1 COMPONENT cli)
install(FILES ${MADE}/man/dfsmr-machines.5.gz DESTINATION share/man/man5 COMPONENT cli)
install(FILES ${MADE}/dcli.bash DESTINATION share/bash-completion/completions RENAME dcli COMPONENT cli)
install(FILES ${MADE}/_dcli DESTINATION share/zsh/vendor-completions COMPONENT cli)
install(FILES ${MADE}/dcli.fish DESTINATION share/fish/vendor_completions.d COMPONENT cli)
install(FILES ${HERE}/copyright DESTINATION share/doc/dfsmr-cli COMPONENT cli)
install(FILES ${MADE}/changelog.gz DESTINATION share/doc/dfsmr-cli COMPONENT cli)

install(TARGETS dsrv RUNTIME DESTINATION bin COMPONENT server)
install(FILES ${MADE}/man/dsrv.8.gz DESTINATION share/man/man8 COMPONENT server)
install(FILES ${MADE}/man/dsrv.yaml.5.gz DESTINATION share/man/man5 COMPONENT server)
install(FILES ${HERE}/dsrv.service DESTINATION /lib/systemd/system COMPONENT server)
install(FILES ${HERE}/dfsmr.sysusers DESTINATION lib/sysusers.d RENAME dfsmr.conf COMPONENT server)
install(FILES ${HERE}/dsrv.yaml DESTINATION /etc/dfsmr COMPONENT server)
install(DIRECTORY DESTINATION /etc/dfsmr/credentials COMPONENT server
  DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
install(FILES ${HERE}/copyright DESTINATION share/doc/dfsmr COMPONENT server)
install(FILES ${MADE}/changelog.gz DESTINATION share/doc/dfsmr COMPONENT server)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/dsrv/ops DESTINATION share/doc/dfsmr COMPONENT server)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/machines/ DESTINATION share/doc/dfsmr/examples COMPONENT server
  PATTERN __pycache__ EXCLUDE)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dfsmr)
set(CPACK_PACKAGE_VENDOR dfsmr)
set(CPACK_PACKAGE_CONTACT "dfsmr <dfsmr@example.org>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)  # for what is not under /usr
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL cli server)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_IGNORE_GROUPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_CLI_PACKAGE_NAME dfsmr-cli)
set(CPACK_DEBIAN_CLI_PACKAGE_SECTION admin)
set(CPACK_COMPONENT_CLI_DESCRIPTION "command line of dfsmr, the finite state machine runner
 dcli defines machines and plans, starts and watches their instances, and turns
 any command into a worker. It talks to a server of the package dfsmr, on this
 machine or another.")
set(CPACK_DEBIAN_SERVER_PACKAGE_NAME dfsmr)
set(CPACK_DEBIAN_SERVER_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_SERVER_PACKAGE_DEPENDS
  "dfsmr-cli (= ${PROJECT_VERSION}), init-system-helpers (>= 1.54~), systemd | systemd-standalone-sysusers")
set(CPACK_COMPONENT_SERVER_DESCRIPTION "durable distributed finite state machine runner
 dsrv runs workflows that must not get lost. It keeps every instance of a state
 machine or a plan on disk, hands what is ready to the programs that ask for it,
 and accepts a result only where the workflow has such a transition.")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA
  ${HERE}/postinst ${HERE}/prerm ${HERE}/postrm ${HERE}/conffiles)
include(CPack)
