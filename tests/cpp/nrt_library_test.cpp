// SPDX-License-Identifier: Apache-2.0
// Choosing and loading a runtime library, with fakes of each generation.
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "nrt/runtime.h"
#include "nrt/status.h"
#include "sim_fixture.h"

namespace neuronx::nrt {
namespace {

TEST(Library, Generation2IsRecognised) {
  const Runtime runtime = load(FAKE_NRT_GEN2);
  EXPECT_EQ(AsyncGeneration::Gen2, runtime.async);
  EXPECT_EQ(nullptr, runtime.nrta_execute_schedule)
      << "another signature under the same name";
  EXPECT_FALSE(runtime.has_events);
  EXPECT_FALSE(runtime.simulated);
}

TEST(Library, Generation3IsRecognised) {
  const Runtime runtime = load(FAKE_NRT_GEN3);
  EXPECT_EQ(AsyncGeneration::Gen3, runtime.async);
  EXPECT_NE(nullptr, runtime.nrta_execute_schedule);
  EXPECT_FALSE(runtime.has_events) << "a runtime before 2.32";
}

TEST(Library, AsyncMayBeMissing) {
  const Runtime runtime = load(FAKE_NRT_SYNC);
  EXPECT_EQ(AsyncGeneration::None, runtime.async);
  EXPECT_NE(nullptr, runtime.nrt_execute);
  EXPECT_EQ(nullptr, runtime.nrt_tensor_memset) << "optional";
  EXPECT_EQ(nullptr, runtime.nrt_sim_last_error);
}

TEST(Library, TheSimulatorIsOfTheNewestGeneration) {
  const Runtime runtime = load(NEURONX_SIM_LIBRARY);
  EXPECT_EQ(AsyncGeneration::Gen3, runtime.async);
  EXPECT_TRUE(runtime.has_events);
  EXPECT_TRUE(runtime.simulated);
  EXPECT_EQ(2u, runtime.version.rt_major);
#define EXPECT_RESOLVED(result, name, parameters) \
  EXPECT_NE(nullptr, runtime.name) << #name;
  NEURONX_NRT_OPTIONAL(EXPECT_RESOLVED)
  NEURONX_NRT_SIMULATOR(EXPECT_RESOLVED)
}

TEST(Library, MissingFunctionsAreNamed) {
  try {
    load(FAKE_NRT_INCOMPLETE);
    FAIL();
  } catch (const NotRunning& error) {
    const std::string text = error.what();
    EXPECT_NE(std::string::npos, text.find("nrt_execute")) << text;
    EXPECT_NE(std::string::npos, text.find("nrt_unload")) << text;
    EXPECT_EQ(std::string::npos, text.find("nrt_init")) << text;
  }
}

TEST(Library, AnUnknownPathSaysWhatToInstall) {
  try {
    load("/nowhere/libnrt.so.1");
    FAIL();
  } catch (const NotRunning& error) {
    const std::string text = error.what();
    EXPECT_NE(std::string::npos, text.find("/nowhere/libnrt.so.1")) << text;
    EXPECT_NE(std::string::npos, text.find("aws-neuronx-runtime-lib")) << text;
    EXPECT_NE(std::string::npos, text.find("TORCH_NEURONX_RUNTIME=sim"));
  }
}

TEST(LibraryPath, FollowsTheEnvironment) {
  unsetenv("TORCH_NEURONX_LIBNRT");
  unsetenv("TORCH_NEURONX_RUNTIME");
  {
    const ScopedEnv scope("TORCH_NEURONX_RUNTIME", "nrt");
    EXPECT_EQ("libnrt.so.1", library_path());
  }
  {
    const ScopedEnv scope("TORCH_NEURONX_RUNTIME", "sim");
    EXPECT_TRUE(library_path().ends_with("libnrt_sim.so"));
  }
  {
    const ScopedEnv scope("TORCH_NEURONX_LIBNRT", "/a/b.so");
    EXPECT_EQ("/a/b.so", library_path());
  }
}

TEST(LibraryPath, RefusesOtherWords) {
  unsetenv("TORCH_NEURONX_LIBNRT");
  const ScopedEnv scope("TORCH_NEURONX_RUNTIME", "gpu");
  try {
    library_path();
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(
        "TORCH_NEURONX_RUNTIME=gpu is not valid; accepted: auto, nrt, sim",
        error.what());
  }
  EXPECT_EQ(0u, device_count_without_init());
  EXPECT_NE(std::string::npos, why_no_device().find("gpu"));
}

TEST(LibraryPath, AForcedLibraryThatIsMissingFailsAtFirstUseOnly) {
  const ScopedEnv scope("TORCH_NEURONX_LIBNRT", "/nowhere/libnrt.so.1");
  EXPECT_EQ(0u, device_count_without_init());
  EXPECT_NE(std::string::npos, why_no_device().find("install"));
  EXPECT_THROW(initialize(), NotRunning);
  EXPECT_FALSE(initialized());
}

}  // namespace
}  // namespace neuronx::nrt
