// Sealing of secrets.
#include "storage/secrets/seal.h"

#include <doctest/doctest.h>

#include <set>

namespace dfsmr {
namespace {

const std::string kFirst(64, 'a');
const std::string kSecond = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
const std::string kNonce(kNonceBytes, 'n');

SecretKeys Keys(const std::string& text) {
  auto keys = ParseSecretKeys(text, "secret.key");
  REQUIRE(keys);
  return *std::move(keys);
}

}  // namespace

TEST_CASE("a file of keys has a key on each line, and each is called by its SHA-256") {
  const SecretKeys keys = Keys(kSecond + "\n\n" + kFirst + "\r\n" + kSecond + "\n");
  REQUIRE(keys.keys.size() == 2);
  CHECK(keys.first().id == "630dcd29");  // sha256 of the bytes 0 to 31
  CHECK(keys.first().bytes.size() == 32);
  CHECK(keys.Find(keys.keys[1].id) == &keys.keys[1]);
  CHECK(keys.Find("00000000") == nullptr);
}

TEST_CASE("what is no key is refused by its line, and not shown") {
  for (const std::string& bad : {kFirst.substr(1), kFirst + "a", kFirst.substr(1) + "g"}) {
    const auto keys = ParseSecretKeys(kSecond + "\n" + bad + "\n", "secret.key");
    REQUIRE_FALSE(keys);
    CHECK(keys.error().message.starts_with("secret.key:2: "));
    CHECK(keys.error().message.find("aaaa") == std::string::npos);
  }
  CHECK(ParseSecretKeys("\n", "secret.key").error().message.find("no key") != std::string::npos);
}

TEST_CASE("a sealed value opens with its key, at its place, whole") {
  const SecretKey key = Keys(kFirst).first();
  const SecretPlace place{"ns", "db", 3};
  for (const std::string& value :
       {std::string("s3cret"), std::string(), std::string(65'536, 'x')}) {
    const std::string sealed = Seal(key, place, kNonce, value);
    if (!value.empty()) CHECK(sealed.find(value) == std::string::npos);
    auto open = Unseal(key, place, sealed);
    REQUIRE(open);
    CHECK(*open == value);
  }
}

TEST_CASE("nothing else opens it") {
  const SecretKeys keys = Keys(kFirst + "\n" + kSecond);
  const std::string sealed = Seal(keys.first(), {"ns", "db", 3}, kNonce, "s3cret");
  CHECK_FALSE(Unseal(keys.keys[1], {"ns", "db", 3}, sealed));
  CHECK_FALSE(Unseal(keys.first(), {"other", "db", 3}, sealed));
  CHECK_FALSE(Unseal(keys.first(), {"ns", "db2", 3}, sealed));
  CHECK_FALSE(Unseal(keys.first(), {"ns", "db", 4}, sealed));
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const auto open = Unseal(keys.first(), {"ns", "db", 3}, changed);
    REQUIRE_FALSE(open);
    CHECK(open.error().message.find("s3cret") == std::string::npos);
    CHECK_FALSE(Unseal(keys.first(), {"ns", "db", 3}, sealed.substr(0, i)));
  }
}

TEST_CASE("a key that is missing is named") {
  auto keys = std::make_shared<const SecretKeys>(Keys(kFirst));
  const std::string sealed = Seal(keys->first(), {"ns", "db", 3}, kNonce, "s3cret");
  const auto open = Unseal(keys, "630dcd29", {"ns", "db", 3}, sealed);
  REQUIRE_FALSE(open);
  CHECK(open.error().reason == Reason::kSecretsLocked);
  CHECK(open.error().message.find("630dcd29") != std::string::npos);
  CHECK(Unseal(nullptr, "630dcd29", {"ns", "db", 3}, sealed).error().reason ==
        Reason::kSecretsLocked);
  CHECK(Unseal(keys, keys->first().id, {"ns", "db", 3}, sealed));
}

TEST_CASE("random bytes are others each time") {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) CHECK(seen.insert(RandomBytes(kNonceBytes)).second);
}

}  // namespace dfsmr
