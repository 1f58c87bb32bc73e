# Installs this build into a scratch prefix, then builds and runs the example
# against it as docs/cpp.md says.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/site-packages)
set(ENV{CMAKE_PREFIX_PATH} "${TORCH}:${SCRATCH}/site-packages/torch_neuronx")
run(${CMAKE_COMMAND} -S ${EXAMPLE} -B ${SCRATCH}/build -G ${GENERATOR}
    -D CMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -D CMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
run(${SCRATCH}/build/train)
