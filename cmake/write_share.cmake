# Run as a script, with PROGRAM (the command that starts fastkernels) and FOLDER: writes completions and manual page, as
# printed by the program, into FOLDER.
function(write_text file)
  # Defaults in the home folder are written with ~ instead of the home folder of the user who builds.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=FASTKERNELS_HOME --unset=XDG_DATA_HOME HOME=~ FASTKERNELS_CONFIG= ${PROGRAM}
            ${ARGN}
    OUTPUT_FILE "${FOLDER}/${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(MAKE_DIRECTORY "${FOLDER}")
write_text(fastkernels.bash completion bash)
write_text(_fastkernels completion zsh)
write_text(fastkernels.fish completion fish)
write_text(fastkernels.1 man)
