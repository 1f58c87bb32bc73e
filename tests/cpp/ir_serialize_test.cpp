// SPDX-License-Identifier: Apache-2.0
#include "ir/serialize.h"

#include <gtest/gtest.h>

#include "common/hash.h"
#include "ir/passes.h"
#include "ir/print.h"
#include "ir_programs.h"

namespace neuronx::ir {
namespace {

constexpr size_t kHeader = 24;

Program read(const std::string& bytes) {
  return deserialize(bytes.data(), bytes.size());
}

// The payload with a header whose size and checksum are right, so that damage
// reaches the reader and the verifier.
std::string sealed(const std::string& payload) {
  std::string bytes("NXIR\1\0\0\0", 8);
  for (int i = 0; i < 8; ++i)
    bytes += char(uint64_t(payload.size()) >> (8 * i));
  const auto digest = sha256(payload);
  bytes.append(digest.begin(), digest.begin() + 8);
  return bytes + payload;
}

// The mixed program without its random numbers, whose body is long.
Program small_program() {
  Program p = mixed_program();
  p.results.erase(p.results.begin() + 3);
  p.aliases.erase(p.aliases.begin() + 3);
  dead_code_elimination(p);
  return p;
}

TEST(Serialize, RoundTrip) {
  for (const Program& p : {softmax_program(), mixed_program(), Program{}}) {
    const std::string bytes = serialize(p);
    const Program back = read(bytes);
    EXPECT_EQ(serialize(back), bytes);
    EXPECT_EQ(to_string(back), to_string(p));
    EXPECT_EQ(to_stablehlo(back, {.composites = true}),
              to_stablehlo(p, {.composites = true}));
    EXPECT_EQ(back.name, p.name);
    EXPECT_EQ(digest(back), digest(p));
  }
}

TEST(Serialize, ArgumentsSurvive) {
  const Program p = mixed_program(), back = read(serialize(p));
  for (size_t i = 0; i < p.operations.size(); ++i) {
    EXPECT_EQ(p.operations[i].arguments, back.operations[i].arguments);
    EXPECT_EQ(p.operations[i].attributes, back.operations[i].attributes);
  }
  EXPECT_EQ(back.aliases, p.aliases);
}

TEST(Serialize, NumberingAndSharingDoNotMatter) {
  Program p = mixed_program(), other = p;
  // Values in another numbering, with a gap.
  const int32_t last = int32_t(p.types.size());
  other.types.push_back({DType::Bool, {}});
  std::reverse(other.types.begin(), other.types.end());
  const auto renumber = [&](std::vector<Value>& values) {
    for (Value& v : values)
      v.id = last - v.id;
  };
  renumber(other.parameters);
  renumber(other.results);
  for (Operation& op : other.operations) {
    renumber(op.operands);
    renumber(op.results);
    for (auto& body : op.bodies)
      body = std::make_shared<const Program>(*body);
  }
  EXPECT_EQ(serialize(other), serialize(p));
}

TEST(Serialize, EqualBodiesAreWrittenOnce) {
  const auto size = [](int calls) {
    Builder b;
    const Value x = b.parameter({DType::Float32, {2, 3}});
    Values results;
    for (int i = 0; i < calls; ++i)
      results.push_back(b.reduce(x, Reduce::Add, {1}));
    return serialize(b.finish(results)).size();
  };
  EXPECT_LT(size(2) - size(1), 250u);
  EXPECT_EQ(size(3) - size(2), size(2) - size(1));
}

TEST(Serialize, DigestIgnoresNamesOnly) {
  const auto make = [](const char* name, double value) {
    Builder b(name);
    const Value x = b.parameter({DType::Float32, {}});
    return b.finish({b.add(x, b.constant(DType::Float32, value))});
  };
  EXPECT_EQ(digest(make("a", 1)), digest(make("b", 1)));
  EXPECT_NE(digest(make("a", 1)), digest(make("a", 2)));
  EXPECT_NE(digest(make("a", 0.0)), digest(make("a", -0.0)));
  EXPECT_NE(serialize(make("a", 1)), serialize(make("b", 1)));
  EXPECT_EQ(digest(make("a", 1)).size(), 64u);
}

TEST(Deserialize, EveryTruncationIsRefused) {
  const std::string bytes = serialize(mixed_program());
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_THROW(deserialize(bytes.data(), n), std::invalid_argument) << n;
  EXPECT_THROW(read(bytes + '\0'), std::invalid_argument);
  EXPECT_THROW(deserialize(nullptr, 0), std::invalid_argument);
}

TEST(Deserialize, EveryBitFlipIsRefused) {
  std::string bytes = serialize(softmax_program());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= char(1 << (bit % 8));
    EXPECT_THROW(read(bytes), std::invalid_argument) << bit;
    bytes[bit / 8] ^= char(1 << (bit % 8));
  }
}

// A flip under a correct checksum is refused, or gives a valid program.
TEST(Deserialize, DamageUnderACorrectChecksumIsHarmless) {
  const std::string payload = serialize(small_program()).substr(kHeader);
  int refused = 0;
  for (size_t bit = 0; bit < 8 * payload.size(); ++bit) {
    std::string damaged = payload;
    damaged[bit / 8] ^= char(1 << (bit % 8));
    try {
      const Program p = read(sealed(damaged));
      EXPECT_GT(serialize(p).size(), kHeader);
      EXPECT_FALSE(to_string(p).empty());
      EXPECT_FALSE(to_stablehlo(p).empty());
    } catch (const std::invalid_argument&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(Deserialize, RandomPayloadsAreRefusedWithoutHugeAllocations) {
  uint64_t state = 1;
  const auto random = [&] {
    state = state * 6364136223846793005 + 1442695040888963407;
    return uint32_t(state >> 33);
  };
  const std::string payload = serialize(mixed_program()).substr(kHeader);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = payload;
    for (uint32_t k = 1 + random() % 4; k > 0; --k) {
      const size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = char(random());
          break;
        case 1:
          damaged.replace(at, 4, "\xff\xff\xff\x7f", 4);
          break;
        default:
          damaged.erase(at, random() % 16);
      }
      if (damaged.empty())
        break;
    }
    try {
      const Program p = read(sealed(damaged));
      to_string(p);
      to_stablehlo(p);
    } catch (const std::invalid_argument&) {
    }
  }
}

TEST(Deserialize, DeepNestingIsRefused) {
  const TensorType type{DType::Float32, {}};
  Program p = build_region(
      [](Builder& b, const Values& v) -> Values { return {b.exp(v[0])}; },
      {type});
  for (int depth = 0; depth < 1000; ++depth) {
    Builder b;
    const Value x = b.parameter(type);
    const Values results = b.composite("aten.nested", {x}, {}, std::move(p));
    p = b.finish(results);
  }
  EXPECT_THROW(read(serialize(p)), std::invalid_argument);
}

TEST(Deserialize, OtherVersionsAreNamed) {
  std::string bytes = serialize(Program{});
  bytes[4] = 9;
  try {
    read(bytes);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "[deserialize] format version 9, this build reads version 1");
  }
}

}  // namespace
}  // namespace neuronx::ir
