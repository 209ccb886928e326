// Signatures that ssh-keygen made of the text "hello archive", with keys that were thrown away.
#include "storage/signatures/signatures.h"

#include <doctest/doctest.h>
#include <openssl/evp.h>

#include "storage/signatures/wire.h"

namespace dfsmr {
namespace {

constexpr std::string_view kText = "hello archive";
constexpr std::string_view kKey =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMNgZ+gBarPpBewy1WcRFVAM/YfkeYNLIbtpQf4VHV6G ann";
constexpr std::string_view kPrint = "SHA256:oKcIcGCGB3Y1wSzdfQ4JQx6VYs/24u3wsHPkDiawL6s";
constexpr std::string_view kGood = R"(-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgw2Bn6AFqs+kF7DLVZxEVUAz9h+
R5g0shu2lB/hUdXoYAAAANZGZzbXItcGFja2FnZQAAAAAAAAAGc2hhNTEyAAAAUwAAAAtz
c2gtZWQyNTUxOQAAAEBw8wrpBh6/cpmCWN2qzg/keU03F+iugopqo2k8PmNuZXunnMMmZH
u1ySkVNTpHNlwE+h7Pk3c3FlV8yiZOSOwM
-----END SSH SIGNATURE-----
)";
constexpr std::string_view kSha256 = R"(-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgw2Bn6AFqs+kF7DLVZxEVUAz9h+
R5g0shu2lB/hUdXoYAAAANZGZzbXItcGFja2FnZQAAAAAAAAAGc2hhMjU2AAAAUwAAAAtz
c2gtZWQyNTUxOQAAAEC+up7zjK4slt0xoieFJR+jYjsQgDQnlgA/y/uc0tYxQc7gYPSeF5
mwScUFTk9CVg0+pYGGwGxy1vWZwMXokLgB
-----END SSH SIGNATURE-----
)";
constexpr std::string_view kOtherName = R"(-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgw2Bn6AFqs+kF7DLVZxEVUAz9h+
R5g0shu2lB/hUdXoYAAAAEZmlsZQAAAAAAAAAGc2hhNTEyAAAAUwAAAAtzc2gtZWQyNTUx
OQAAAEBmqLO3ehWdfQDEQ1aVIiS8dGFNeq9We7S8G/jaXgXG5HPtmp34s51BO/8699TOOP
zkmHZxTfZ9KXkgBSSVSxIO
-----END SSH SIGNATURE-----
)";
constexpr std::string_view kRsa = R"(-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAARcAAAAHc3NoLXJzYQAAAAMBAAEAAAEBALW5nmlpehNMHqnNTMzsBe
47eWSgYYrV23GjyoNsKg9Oh8/akGcTwt9moxWH6Ph30vXRciswVVxQChtMPavNdd/31jtI
L+bKCN8q4ikCukRd+IErheowqog0GRRsDLtLojFrnTVlGYcjXw0DuDeGg4fqWmHjcZaj6H
V4CUSSzV3SDfR2M1CYH9SpO9/Gf6XEbqgSr0n9UPsPUVyUck55Vk7gWZfBT0uRpN6cUFcT
wZql5VXUZF8hMLrK6MtD71tK5bBRd9iD3+JqN9foksUXxM1ii83A41bheddC5wvUwomOnL
2K58vjW/sNsG28eDN+hFDQDA2NtbKhXNNt/dOuivcAAAANZGZzbXItcGFja2FnZQAAAAAA
AAAGc2hhNTEyAAABFAAAAAxyc2Etc2hhMi01MTIAAAEACFQ9Ml4piyTH6ih6ig3DdX+Y+q
0kumRHSAS0OQPl/fVun4HBPZ/Xv9i64dqhfFNT2il67o+JgEY+UEGZYeeI3PtAlRx0wgD9
In1LUFby7A5dIq2C8H92C5/8w5xY/u+KQcRaQiKx5ZxuK3jMAIUaxJ104irXPCl6372wWj
GHiO7xbo9CXpNUcTZ0uiT7hyHhjSXIAWlHV/2wXb5cfXhgWryCvnv2vaGTXSfsG3oi214m
YFKumkJZoWXzBlZLmfK1g/W/Y1QPZXI7vsOchSzoBBqH0odH448eSnwaRb/bVmidPKDZfC
ca2D1+RTcokGIyxRV0eAj7d1dtavYGAJQd7w==
-----END SSH SIGNATURE-----
)";
constexpr std::string_view kRsaKey =
    "ssh-rsa "
    "AAAAB3NzaC1yc2EAAAADAQABAAABAQC1uZ5paXoTTB6pzUzM7AXuO3lkoGGK1dtxo8qDbCoPTofP2pBnE8LfZqMVh+"
    "j4d9L10XIrMFVcUAobTD2rzXXf99Y7SC/"
    "mygjfKuIpArpEXfiBK4XqMKqINBkUbAy7S6Ixa501ZRmHI18NA7g3hoOH6lph43GWo+h1eAlEks1d0g30djNQmB/"
    "UqTvfxn+lxG6oEq9J/VD7D1FclHJOeVZO4FmXwU9LkaTenFBXE8GapeVV1GRfITC6yujLQ+9bSuWwUXfYg9/"
    "iajfX6JLFF8TNYovNwONW4XnXQucL1MKJjpy9iufL41v7DbBtvHgzfoRQ0AwNjbWyoVzTbf3Tror3";

template <typename T>
std::string Why(const Result<T>& result) {
  if (result) return "";
  return std::string(Name(result.error().reason)) + ": " + result.error().message;
}

// A security key of the test's own: what its firmware would sign.
struct SecurityKey {
  EVP_PKEY* pair = nullptr;
  std::string point = std::string(32, '\0');
  SecurityKey() {
    const std::string seed(32, 's');
    pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                        reinterpret_cast<const unsigned char*>(seed.data()), 32);
    size_t length = 32;
    EVP_PKEY_get_raw_public_key(pair, reinterpret_cast<unsigned char*>(point.data()), &length);
  }
  ~SecurityKey() { EVP_PKEY_free(pair); }
  SecurityKey(const SecurityKey&) = delete;
  SecurityKey& operator=(const SecurityKey&) = delete;

  std::string Sign(const std::string& text) const {
    std::string signature(64, '\0');
    size_t length = 64;
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    EVP_DigestSignInit(context, nullptr, nullptr, nullptr, pair);
    EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &length,
                   reinterpret_cast<const unsigned char*>(text.data()), text.size());
    EVP_MD_CTX_free(context);
    return signature;
  }
};

std::string Armored(const std::string& blob) {
  return "-----BEGIN SSH SIGNATURE-----\n" + ToBase64(blob) + "\n-----END SSH SIGNATURE-----\n";
}

std::string OfSecurityKey(const SecurityKey& key, uint8_t flags, uint8_t counter) {
  constexpr std::string_view kType = "sk-ssh-ed25519@openssh.com";
  std::string text = "SSHSIG";
  for (const std::string& field : {std::string("dfsmr-package"), std::string(),
                                   std::string("sha512"), HashesOf(kText).sha512}) {
    PutString(field, &text);
  }
  const std::string state = {static_cast<char>(flags), 0, 0, 0, static_cast<char>(counter)};
  const std::string inside = HashesOf("ssh:").sha256 + state + HashesOf(text).sha256;
  std::string key_blob;
  for (const std::string& field : {std::string(kType), key.point, std::string("ssh:")}) {
    PutString(field, &key_blob);
  }
  std::string inner;
  PutString(kType, &inner);
  PutString(key.Sign(inside), &inner);
  inner += state;
  std::string blob("SSHSIG\0\0\0\1", 10);
  for (const std::string& field :
       {key_blob, std::string("dfsmr-package"), std::string(), std::string("sha512"), inner}) {
    PutString(field, &blob);
  }
  return Armored(blob);
}

}  // namespace

TEST_CASE("a key is a line, and has the fingerprint that ssh-keygen prints") {
  const auto key = ParsePublicKey(std::string(kKey) + "\n");
  REQUIRE(key);
  CHECK(Fingerprint(*key) == kPrint);
  CHECK(key->comment == "ann");
  CHECK(LineOf(*key) == kKey);
  CHECK(Why(ParsePublicKey(kRsaKey)).find("'ssh-rsa' does not sign packages") != std::string::npos);
  CHECK(Why(ParsePublicKey("")).starts_with("BAD_REQUEST: expected a public key"));
  CHECK(Why(ParsePublicKey("ssh-ed25519 AAAA")).find("broken") != std::string::npos);
  CHECK(Why(ParsePublicKey(std::string(kKey) + "\n" + std::string(kKey))).find("one line") !=
        std::string::npos);
  CHECK(Why(ParsePublicKey("-----BEGIN OPENSSH PRIVATE KEY-----\nx")).find("one line") !=
        std::string::npos);
}

TEST_CASE("a signature holds for its bytes only") {
  for (const std::string_view text : {kGood, kSha256}) {
    const auto signature = ParseSignature(text);
    REQUIRE_MESSAGE(signature, Why(signature));
    CHECK(Fingerprint(signature->key) == kPrint);
    CHECK(Verify(*signature, HashesOf(kText)).has_value());
    const auto changed = Verify(*signature, HashesOf("hello archivE"));
    REQUIRE_FALSE(changed.has_value());
    CHECK(changed.error().reason == Reason::kSignatureMismatch);
    SshSignature other = *signature;
    other.bytes[3] = static_cast<char>(other.bytes[3] ^ 1);
    CHECK_FALSE(Verify(other, HashesOf(kText)).has_value());
  }
}

TEST_CASE("a security key signs, with its flags and its counter") {
  const SecurityKey key;
  const auto signature = ParseSignature(OfSecurityKey(key, 1, 7));
  REQUIRE_MESSAGE(signature, Why(signature));
  CHECK(signature->counter == 7);
  CHECK(Verify(*signature, HashesOf(kText)).has_value());
  SshSignature other = *signature;
  other.counter = 8;
  CHECK_FALSE(Verify(other, HashesOf(kText)).has_value());
}

TEST_CASE("what is no such signature is refused, and says why") {
  const auto why = [](std::string_view text) { return Why(ParseSignature(text)); };
  CHECK(why(kOtherName).find("it was made with -n 'file'") != std::string::npos);
  CHECK(why(kRsa).find("a key of type 'ssh-rsa'") != std::string::npos);
  CHECK(why("").find("no signature of OpenSSH") != std::string::npos);
  CHECK(why("-----BEGIN PGP SIGNATURE-----\n").find("no signature of OpenSSH") !=
        std::string::npos);
  CHECK(why(Armored("SSHSIG")).find("fields are broken") != std::string::npos);
  std::string second("SSHSIG\0\0\0\2", 10);
  for (int i = 0; i < 5; ++i) PutString("", &second);
  CHECK(why(Armored(second)).find("version 2") != std::string::npos);
  CHECK(why(std::string(5'000, 'x')).find("4 KiB") != std::string::npos);
  std::string broken(kGood);
  broken[40] = '!';
  CHECK(why(broken).find("base64") != std::string::npos);
  for (const std::string_view text : {kOtherName, kRsa, std::string_view("x")}) {
    CHECK(why(text).starts_with("BAD_SIGNATURE: "));
  }
}

TEST_CASE("a file may hold several signatures") {
  const auto blocks = ArmoredBlocks(std::string(kGood) + "x\n" + std::string(kSha256));
  REQUIRE(blocks.size() == 2);
  CHECK(ParseSignature(blocks[1]).has_value());
  CHECK(ArmoredBlocks("nothing").empty());
}

TEST_CASE("the digest of an archive is its SHA-256") {
  CHECK(HashesOf("").Digest() ==
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  ArchiveHasher hasher;
  hasher.Add("hello ");
  hasher.Add("archive");
  CHECK(hasher.Take().sha512 == HashesOf(kText).sha512);
}

TEST_CASE("allowed_signers say who may sign, in which namespaces and when") {
  const std::string key(kKey.substr(0, kKey.rfind(' ')));
  const auto key_value = *ParsePublicKey(kKey);
  const auto may = [&](const std::string& text, int year = 2026) {
    const auto signers = ParseAllowedSigners(text);
    if (!signers) return "! " + signers.error().message;
    const Timestamp now = std::chrono::sys_days(std::chrono::year(year) / 6 / 15);
    const AllowedSigner* signer = FindSigner(*signers, key_value, now);
    return signer ? signer->principals : std::string("nobody");
  };
  CHECK(may("# comment\n\nann " + key + " of ann\n") == "ann");
  CHECK(may("ann@x,*@y " + key) == "ann@x,*@y");
  CHECK(may("ann namespaces=\"file,dfsmr-*\" " + key) == "ann");
  CHECK(may("ann namespaces=\"file,git\" " + key) == "nobody");
  CHECK(may("ann namespaces=\"*,!dfsmr-package\" " + key) == "nobody");
  CHECK(may("ann cert-authority " + key) == "nobody");
  CHECK(may("ann valid-before=\"20260101\" " + key) == "nobody");
  CHECK(may("ann valid-after=\"20260101\",valid-before=202701010000Z " + key) == "ann");
  CHECK(may("ann valid-after=\"20260101\" " + key, 2025) == "nobody");
  CHECK(may("bob " + std::string(kRsaKey)) == "nobody");
  CHECK(may("").find("nobody") == 0);
  CHECK(may("ann\n").starts_with("! line 1: there is no key"));
  CHECK(may("ann\n\nx").starts_with("! line 1"));
  CHECK(may("ann weird=1 " + key).starts_with("! line 1: the option 'weird'"));
  CHECK(may("ann ssh-ed25519 AAAA").starts_with("! line 1: the public key is broken"));
}

TEST_CASE("base64 is read with and without its end") {
  for (const char* text : {"", "a", "ab", "abc", "abcd"}) {
    std::string coded = ToBase64(text);
    CHECK(FromBase64(coded) == text);
    while (coded.ends_with('=')) coded.pop_back();
    CHECK(FromBase64(coded) == text);
  }
  CHECK_FALSE(FromBase64("a").has_value());
  CHECK_FALSE(FromBase64("a*bc").has_value());
}

}  // namespace dfsmr
