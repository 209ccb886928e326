#include <google/protobuf/struct.pb.h>

#include <cstdlib>
#include <filesystem>

#include "dcli/package/package.h"
#include "dcli/package/subject.h"
#include "dcli/package/tool.h"
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
  bool trusted = false;
  std::string verdict;  // TRUSTED or UNSIGNED
  std::string fingerprint;
  std::string signer;
  std::string why;
};

// "only of keys that FILE does not have" is what a server calls UNSIGNED, too.
Judgement Judge(const std::vector<SshSignature>& signatures,
                const std::vector<AllowedSigner>& signers, const std::string& file) {
  const Timestamp now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  Judgement judgement{
      .trusted = false, .verdict = "UNSIGNED", .fingerprint = "", .signer = "", .why = ""};
  for (const SshSignature& one : signatures) {
    judgement.fingerprint = Fingerprint(one.key);
    const AllowedSigner* signer = FindSigner(signers, one.key, now);
    if (signer == nullptr) continue;
    judgement.trusted = true;
    judgement.verdict = "TRUSTED";
    judgement.signer = signer->principals;
    return judgement;
  }
  judgement.why = "it is signed by " + judgement.fingerprint + ", which is not in " + file +
                  ", or not at this time";
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
  if (context.Print(reply) || !judgement.trusted) return;
  if (context.names()) {
    context.out << Escaped(file) << '\n';
    return;
  }
  context.out << Escaped(file) << "  " << judgement.verdict << "  " << judgement.fingerprint << "  "
              << Escaped(judgement.signer) << '\n';
}

// All signatures of a file, each of these very bytes; or why one is never taken.
Result<std::vector<SshSignature>> SignaturesOf(const std::string& text, const std::string& bytes) {
  const ArchiveHashes hashes = HashesOf(bytes);
  std::vector<std::string> blocks = ArmoredBlocks(text);
  if (blocks.empty()) blocks.push_back(text);
  std::vector<SshSignature> signatures;
  for (const std::string& block : blocks) {
    auto signature = ParseSignature(block);
    if (!signature) return signature.error();
    if (auto good = Verify(*signature, hashes); !good) return good.error();
    signatures.push_back(*std::move(signature));
  }
  return signatures;
}

}  // namespace

int SignPackage(Context& context, const PackageOptions& options) {
  const std::string& file = options.places[0];
  const auto bytes = ReadWholeFile(file);
  if (!bytes) return FailToOpen(context, file, bytes.error());
  const std::string key = options.key.empty() ? DefaultKey() : options.key;
  if (key.empty()) {
    return context.Fail(kBadUsage, "there is no key to sign with: no ~/.ssh/id_ed25519",
                        "--key FILE says which; ssh-keygen -t ed25519 makes one");
  }
  const auto ran = RunTool(
      {"ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", std::string(kSignatureNamespace)}, file);
  if (!ran) {
    return context.Fail(kBadUsage, ran.error().message,
                        "it is in the package openssh-client of Debian");
  }
  if (ran->status != 0) {
    return context.Fail(
        kRefused,
        "ssh-keygen did not sign with " + key + ": exit status " + std::to_string(ran->status),
        "--key takes a private key, or the public one of a key in ssh-agent");
  }
  const auto signatures = SignaturesOf(ran->out, *bytes);
  if (!signatures) return context.Fail(signatures.error());
  const std::string place = file + ".sig";
  if (auto written = WriteWholeFile(place, ran->out); !written) {
    return context.Fail(kBadUsage, written.error().message);
  }
  google::protobuf::Struct reply;
  (*reply.mutable_fields())["file"].set_string_value(place);
  const std::string fingerprint = Fingerprint(signatures->front().key);
  (*reply.mutable_fields())["fingerprint"].set_string_value(fingerprint);
  if (context.Print(reply)) return kSucceeded;
  context.out << Escaped(place);
  if (!context.names()) context.out << "  " << fingerprint;
  context.out << '\n';
  return kSucceeded;
}

int VerifyPackage(Context& context, const PackageOptions& options) {
  const std::string& file = options.places[0];
  if (options.allowed_signers.empty()) {
    return context.Fail(kBadUsage, "--allowed-signers FILE says whose signatures count",
                        "dcli package verify etl-1.4.0.dfsmr --allowed-signers allowed_signers");
  }
  const auto bytes = ReadWholeFile(file);
  if (!bytes) return FailToOpen(context, file, bytes.error());
  const auto text = ReadWholeFile(options.allowed_signers);
  if (!text) return FailToOpen(context, options.allowed_signers, text.error());
  const auto signers = ParseAllowedSigners(*text);
  if (!signers) {
    return context.Fail(kBadUsage, options.allowed_signers + ": " + signers.error().message);
  }
  std::error_code ignored;
  if (!std::filesystem::exists(file + ".sig", ignored)) {
    Print(context, file, {.trusted = false, .verdict = "UNSIGNED"});
    return context.Fail(kRefused, file + " is not signed: there is no " + file + ".sig (UNSIGNED)",
                        "dcli package sign " + file);
  }
  const auto armored = ReadWholeFile(file + ".sig");
  if (!armored) return FailToOpen(context, file + ".sig", armored.error());
  const auto signatures = SignaturesOf(*armored, *bytes);
  if (!signatures) {
    Error error = signatures.error();
    error.message = file + ".sig: " + error.message;
    return context.Fail(error);
  }
  const Judgement judgement = Judge(*signatures, *signers, options.allowed_signers);
  Print(context, file, judgement);
  if (judgement.trusted) return kSucceeded;
  return context.Fail(kRefused, file + " is not trusted: " + judgement.why + " (UNTRUSTED_KEY)",
                      "ssh-keygen(1), ALLOWED SIGNERS, tells how the lines of that file are");
}

}  // namespace dfsmr::cli
