#include <google/protobuf/struct.pb.h>

#include <cstdlib>
#include <filesystem>

#include "dcli/call/packages.h"
#include "dcli/package/package.h"
#include "dcli/package/signing.h"
#include "dcli/package/subject.h"
#include "dcli/package/tool.h"
#include "dcli/package/versions.h"
#include "dcli/text/text.h"
#include "storage/archive/files.h"
#include "storage/signatures/signatures.h"

namespace dfsmr::cli {
namespace {

// The key that ssh-keygen has made, if there is one where it makes them.
std::string DefaultKey() {
  const char* home = std::getenv("HOME");
  for (const char* name : {"id_ed25519", "id_ed25519_sk"}) {
    const std::string path = std::string(home == nullptr ? "" : home) + "/.ssh/" + name;
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return "";
}

struct Judgement {
  std::string verdict;  // TRUSTED, UNSIGNED or REVOKED
  std::string fingerprint;
  std::string signer;
  std::string why;  // not TRUSTED
  bool trusted() const { return verdict == "TRUSTED"; }
};

// Those whose signatures count: of a file, or of a namespace with what it has revoked.
struct Signers {
  std::string from;
  std::vector<AllowedSigner> allowed;
  std::vector<AllowedSigner> revoked;
};

Result<Signers> SignersOf(Context& context, const std::string& file) {
  Signers signers;
  if (!file.empty()) {
    signers.from = file;
    const auto text = ReadWholeFile(file);
    if (!text) return text.error();
    auto allowed = ParseAllowedSigners(*text);
    if (!allowed) {
      Error error = allowed.error();
      error.message = file + ": " + error.message;
      return error;
    }
    signers.allowed = *std::move(allowed);
    return signers;
  }
  signers.from = "the namespace's trusted keys";
  v1::ListTrustedKeysRequest request;
  request.set_namespace_(context.name_space);
  auto keys = context.client->packages().ListTrustedKeys(request);
  if (!keys) return keys.error();
  for (const v1::TrustedKey& one : keys->keys()) {
    auto key = ParsePublicKey(one.public_key());
    if (!key) return key.error();
    auto& to = one.has_revoke_time() ? signers.revoked : signers.allowed;
    to.push_back(
        {.principals = one.name(), .key = *std::move(key), .valid_after = {}, .valid_before = {}});
  }
  return signers;
}

// An archive as it is checked: a file with FILE.sig beside it, or a version that a server has.
struct Signed {
  std::string name;
  ArchiveHashes hashes;
  std::vector<std::string> signatures;
};

Result<Signed> OpenFile(const std::string& file) {
  auto bytes = ReadWholeFile(file);
  if (!bytes) return bytes.error();
  Signed found{file, HashesOf(*bytes), {}};
  std::error_code ignored;
  if (!std::filesystem::exists(file + ".sig", ignored)) return found;
  auto text = ReadWholeFile(file + ".sig");
  if (!text) return text.error();
  found.signatures = SignaturesIn(*text);
  return found;
}

Result<Signed> OpenVersion(Context& context, const std::string& place) {
  auto folder = ScratchFolder::Make();
  if (!folder) return folder.error();
  auto named = Resolved(context, place);
  if (!named) return named.error();
  std::string path = folder->path() + "/package.dfsmr";
  auto whole = FetchArchive(context, *named, &path);
  if (!whole) return whole.error();
  auto found = OpenFile(path + ".part");
  if (!found) return found.error();
  found->name = FullName(*whole);
  for (const v1::Signature& one : whole->signatures()) found->signatures.push_back(one.text());
  return found;
}

// "only of keys that nobody here knows" is what a server calls UNSIGNED, too.
Judgement Judge(const std::vector<SshSignature>& signatures, const Signers& signers) {
  const Timestamp now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  Judgement judgement{"UNSIGNED", "", "", "it is not signed (UNSIGNED)"};
  for (const SshSignature& one : signatures) {
    if (const AllowedSigner* signer = FindSigner(signers.allowed, one.key, now)) {
      return {"TRUSTED", Fingerprint(one.key), signer->principals, ""};
    }
    if (judgement.verdict == "REVOKED") continue;
    judgement.fingerprint = Fingerprint(one.key);
    judgement.why = "it is signed by " + judgement.fingerprint + ", which is not in " +
                    signers.from + ", or not at this time (UNTRUSTED_KEY)";
    const AllowedSigner* revoked = FindSigner(signers.revoked, one.key, now);
    if (revoked == nullptr) continue;
    judgement.verdict = "REVOKED";
    judgement.signer = revoked->principals;
    judgement.why = "it is signed by " + judgement.fingerprint + ", the key of " +
                    revoked->principals + ", which was revoked (KEY_REVOKED)";
  }
  return judgement;
}

void Print(Context& context, const std::string& file, const Judgement& judgement) {
  google::protobuf::Struct reply;
  auto& fields = *reply.mutable_fields();
  fields["file"].set_string_value(file);
  fields["verdict"].set_string_value(judgement.verdict);
  if (!judgement.fingerprint.empty()) {
    fields["fingerprint"].set_string_value(judgement.fingerprint);
  }
  if (!judgement.signer.empty()) fields["signer"].set_string_value(judgement.signer);
  if (context.Print(reply) || !judgement.trusted()) return;
  if (context.names()) {
    context.out << Escaped(file) << '\n';
    return;
  }
  context.out << Escaped(file) << "  " << judgement.verdict << "  " << judgement.fingerprint << "  "
              << Escaped(judgement.signer) << '\n';
}

int PrintSigned(Context& context, const std::string& what, const std::string& signature) {
  const auto parsed = ParseSignature(signature);
  const std::string fingerprint = parsed ? Fingerprint(parsed->key) : "";
  google::protobuf::Struct reply;
  (*reply.mutable_fields())["file"].set_string_value(what);
  (*reply.mutable_fields())["fingerprint"].set_string_value(fingerprint);
  if (context.Print(reply)) return kSucceeded;
  context.out << Escaped(what);
  if (!context.names()) context.out << "  " << fingerprint;
  context.out << '\n';
  return kSucceeded;
}

// Of a version that a server has: its archive is fetched, signed, and only the signature goes back.
int SignVersion(Context& context, const PackageOptions& options) {
  const auto folder = ScratchFolder::Make();
  if (!folder) return context.Fail(kRefused, folder.error().message);
  auto named = Resolved(context, options.places[0]);
  if (!named) return context.Fail(named.error());
  if (named->version.empty()) {
    return context.Fail(kBadUsage, "which version? Write " + named->package + "@VERSION");
  }
  std::string path = folder->path() + "/package.dfsmr";
  auto whole = FetchArchive(context, *named, &path);
  if (!whole) return context.Fail(whole.error());
  std::string hint;
  auto signature = SignedBy(options.key, path + ".part", &hint);
  if (!signature) return context.Fail(kRefused, signature.error().message, hint);
  v1::SignPackageRequest request;
  request.set_namespace_(context.name_space);
  request.set_package(whole->package());
  request.set_version(whole->version());
  request.set_signature(*signature);
  auto done = context.client->packages().SignPackage(request);
  if (!done) return context.Fail(done.error());
  if (context.Print(*done)) return kSucceeded;
  context.out << FullName(*done);
  if (!context.names()) {
    const auto parsed = ParseSignature(*signature);
    context.out << "  " << (parsed ? Fingerprint(parsed->key) : "") << "  "
                << Word(done->verdict());
  }
  context.out << '\n';
  return kSucceeded;
}

}  // namespace

Result<std::string> SignedBy(const std::string& given, const std::string& file, std::string* hint) {
  const auto fail = [hint](std::string message, std::string more) {
    *hint = std::move(more);
    return Error{Code::kInvalidArgument, Reason::kNone, std::move(message)};
  };
  const std::string key = given.empty() ? DefaultKey() : given;
  if (key.empty()) {
    return fail("there is no key to sign with: no ~/.ssh/id_ed25519",
                "--key FILE says which; ssh-keygen -t ed25519 makes one");
  }
  auto ran = RunTool(
      {"ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", std::string(kSignatureNamespace)}, file);
  if (!ran) return fail(ran.error().message, "it is in the package openssh-client of Debian");
  if (ran->status != 0) {
    return fail(
        "ssh-keygen did not sign with " + key + ": exit status " + std::to_string(ran->status),
        "--key takes a private key, or the public one of a key in ssh-agent");
  }
  return std::move(ran->out);
}

std::vector<std::string> SignaturesIn(const std::string& text) {
  std::vector<std::string> blocks = ArmoredBlocks(text);
  if (blocks.empty()) blocks.push_back(text);
  return blocks;
}

Result<std::vector<SshSignature>> GoodSignatures(const std::vector<std::string>& texts,
                                                 const ArchiveHashes& hashes) {
  std::vector<SshSignature> signatures;
  for (const std::string& text : texts) {
    auto signature = ParseSignature(text);
    if (!signature) return signature.error();
    if (auto good = Verify(*signature, hashes); !good) return good.error();
    signatures.push_back(*std::move(signature));
  }
  return signatures;
}

int SignPackage(Context& context, const PackageOptions& options) {
  const std::string& file = options.places[0];
  if (!IsHere(file)) return SignVersion(context, options);
  const auto bytes = ReadWholeFile(file);
  if (!bytes) return FailToOpen(context, file, bytes.error());
  std::string hint;
  const auto signature = SignedBy(options.key, file, &hint);
  if (!signature) {
    const bool usage = options.key.empty() && DefaultKey().empty();
    return context.Fail(usage ? kBadUsage : kRefused, signature.error().message, hint);
  }
  const auto signatures = GoodSignatures(SignaturesIn(*signature), HashesOf(*bytes));
  if (!signatures) return context.Fail(signatures.error());
  const std::string place = file + ".sig";
  if (auto written = WriteWholeFile(place, *signature); !written) {
    return context.Fail(kBadUsage, written.error().message);
  }
  return PrintSigned(context, place, *signature);
}

int VerifyPackage(Context& context, const PackageOptions& options) {
  const std::string& place = options.places[0];
  const bool is_file = IsHere(place);
  const auto found = is_file ? OpenFile(place) : OpenVersion(context, place);
  if (!found) {
    return is_file ? FailToOpen(context, place, found.error()) : context.Fail(found.error());
  }
  const auto signers = SignersOf(context, options.allowed_signers);
  if (!signers) {
    return options.allowed_signers.empty() ? context.Fail(signers.error())
                                           : context.Fail(kBadUsage, signers.error().message);
  }
  const auto signatures = GoodSignatures(found->signatures, found->hashes);
  if (!signatures) {
    Error error = signatures.error();
    error.message = found->name + ": " + error.message;
    return context.Fail(error);
  }
  const Judgement judgement = Judge(*signatures, *signers);
  Print(context, found->name, judgement);
  if (judgement.trusted()) return kSucceeded;
  return context.Fail(kRefused, found->name + " is not trusted: " + judgement.why,
                      signatures->empty() ? "dcli package sign " + place
                                          : "ssh-keygen(1), ALLOWED SIGNERS, tells how the lines "
                                            "of such a file are");
}

}  // namespace dfsmr::cli
