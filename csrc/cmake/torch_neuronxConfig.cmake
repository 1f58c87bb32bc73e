# find_package(torch_neuronx): the target torch_neuronx::torch_neuronx, which
# brings Torch's libraries and headers. Installed in the Python package, in
# share/cmake/torch_neuronx.
include(CMakeFindDependencyMacro)
find_dependency(Torch)

if(NOT TARGET torch_neuronx::torch_neuronx)
  get_filename_component(package "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  add_library(torch_neuronx::torch_neuronx SHARED IMPORTED)
  set_target_properties(torch_neuronx::torch_neuronx PROPERTIES
    IMPORTED_LOCATION "${package}/libtorch_neuronx.so"
    INTERFACE_INCLUDE_DIRECTORIES "${package}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20
    INTERFACE_LINK_LIBRARIES "${TORCH_LIBRARIES}")
  unset(package)
endif()
