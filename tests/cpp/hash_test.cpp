// SPDX-License-Identifier: Apache-2.0
#include "common/hash.h"

#include <gtest/gtest.h>

#include <set>

namespace neuronx {
namespace {

// Vectors of NIST's "Secure Hash Standard Validation System".
TEST(Sha256, KnownVectors) {
  EXPECT_EQ(sha256_hex(""),
            "e3b0c44298fc1c149afbf4c8996fb924"
            "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223"
            "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijk"
                       "ijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039"
            "a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67"
            "f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, EveryTailLengthDiffers) {
  std::set<std::string> digests;
  for (size_t n = 0; n < 200; ++n)
    digests.insert(sha256_hex(std::string(n, '\0')));
  EXPECT_EQ(digests.size(), 200u);
}

TEST(Hash, OrderAndLengthMatter) {
  EXPECT_NE(hash_combine(hash_combine(0, 1), 2),
            hash_combine(hash_combine(0, 2), 1));
  EXPECT_NE(hash_combine(0, 0), 0u);
  std::set<uint64_t> hashes;
  const std::string zeros(100, '\0');
  for (size_t n = 0; n <= zeros.size(); ++n)
    hashes.insert(hash_bytes(zeros.data(), n));
  EXPECT_EQ(hashes.size(), 101u);
}

TEST(Hash, NoCollisionsAmongSmallTuples) {
  std::set<uint64_t> hashes;
  for (uint64_t a = 0; a < 100; ++a)
    for (uint64_t b = 0; b < 100; ++b)
      for (uint64_t c = 0; c < 10; ++c)
        hashes.insert(hash_combine(hash_combine(hash_combine(7, a), b), c));
  EXPECT_EQ(hashes.size(), 100000u);
}

}  // namespace
}  // namespace neuronx
