#include <iostream>
#include <iterator>

#include "dcli/call/packages.h"
#include "dcli/package/package.h"
#include "dcli/package/versions.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "storage/archive/files.h"
#include "storage/signatures/signatures.h"

namespace dfsmr::cli {
namespace {

int Add(Context& context, const TrustOptions& options) {
  if (options.name.empty() || options.file.empty()) {
    return context.Fail(kBadUsage, "usage: dcli trust add NAME FILE|-",
                        "FILE holds a public key, such as ~/.ssh/id_ed25519.pub");
  }
  v1::AddTrustedKeyRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(options.name);
  if (options.file == "-") {
    request.set_public_key(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  } else {
    auto text = ReadWholeFile(options.file);
    if (!text) return context.Fail(kBadUsage, text.error().message);
    request.set_public_key(*std::move(text));
  }
  // What a server need not see: a private key, by mistake.
  if (auto key = ParsePublicKey(request.public_key()); !key) return context.Fail(key.error());
  auto added = context.client->packages().AddTrustedKey(request);
  if (!added) return context.Fail(added.error());
  if (context.Print(*added)) return kSucceeded;
  context.out << Escaped(added->name());
  if (!context.names()) context.out << "  " << added->fingerprint();
  context.out << '\n';
  return kSucceeded;
}

int List(Context& context, const TrustOptions& options) {
  v1::ListTrustedKeysRequest request;
  request.set_namespace_(context.name_space);
  auto all = context.client->packages().ListTrustedKeys(request);
  if (!all) return context.Fail(all.error());
  if (options.allowed_signers) {
    for (const v1::TrustedKey& one : all->keys()) {
      if (one.has_revoke_time()) continue;
      context.out << one.name() << " namespaces=\"" << kSignatureNamespace << "\" "
                  << one.public_key() << '\n';
    }
    return kSucceeded;
  }
  if (context.Print(*all)) return kSucceeded;
  Table table({"NAME", "FINGERPRINT", "ADDED", "BY", "REVOKED"});
  for (const v1::TrustedKey& one : all->keys()) {
    if (context.names()) {
      context.out << Escaped(one.name()) << '\n';
      continue;
    }
    table.Add({one.name(), one.fingerprint(), When(one.create_time(), context.look),
               one.created_by(),
               one.has_revoke_time() ? When(one.revoke_time(), context.look) : ""});
  }
  if (!context.names()) table.Print(context.out, context.look);
  return kSucceeded;
}

int Revoke(Context& context, const TrustOptions& options) {
  if (options.name.empty()) {
    return context.Fail(kBadUsage, "usage: dcli trust revoke NAME|FINGERPRINT");
  }
  v1::RevokeTrustedKeyRequest request;
  request.set_namespace_(context.name_space);
  request.set_key(options.name);
  auto done = context.client->packages().RevokeTrustedKey(request);
  if (!done) return context.Fail(done.error());
  if (context.Print(*done)) return kSucceeded;
  if (!context.names()) {
    context.out << Escaped(done->key().name()) << "  " << done->key().fingerprint()
                << "  revoked\n";
  }
  for (const v1::PackageVersion& one : done->blocked()) {
    context.out << FullName(one);
    if (!context.names()) {
      context.out << "  " << Word(one.state()) << ", blocked: its tasks wait until another trusted "
                  << "key signs it; " << one.stats().live() << " live instances";
    }
    context.out << '\n';
  }
  return kSucceeded;
}

}  // namespace

int Trust(Context& context, const TrustOptions& options) {
  if (options.allowed_signers && options.action != "list") {
    return context.Fail(kBadUsage, "--allowed-signers is for trust list");
  }
  if (options.action == "add") return Add(context, options);
  if (options.action == "list") return List(context, options);
  if (options.action == "revoke") return Revoke(context, options);
  return context.Fail(kBadUsage, "there is no trust " + options.action +
                                     DidYouMean(options.action, {"add", "list", "revoke"}) +
                                     "; there are add, list, revoke");
}

}  // namespace dfsmr::cli
