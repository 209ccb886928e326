#include "dcli/package/package.h"
#include "dcli/package/subject.h"
#include "dcli/text/text.h"
#include "dfsmr/v1/package.pb.h"

namespace dfsmr::cli {
namespace {

std::string Plural(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void AddDocument(std::string_view kind, const std::string& id, const PackageSource& source,
                 v1::PackageVersion* to) {
  v1::PackageDocument* document = to->add_documents();
  document->set_kind(std::string(kind));
  document->set_id(id);
  document->set_path(source.path);
}

// What the server would answer to a put, as far as it can be known without one.
v1::PutPackageResponse ReplyOf(const CheckedPackage& package) {
  v1::PutPackageResponse reply;
  for (const Diagnostic& one : package.diagnostics) {
    v1::Diagnostic* diagnostic = reply.add_diagnostics();
    diagnostic->set_severity(one.error ? v1::Diagnostic::ERROR : v1::Diagnostic::WARNING);
    diagnostic->set_source_name(one.source_name);
    diagnostic->set_line(one.line);
    diagnostic->set_column(one.column);
    diagnostic->set_path(one.path);
    diagnostic->set_message(one.message);
  }
  if (!package.manifest) return reply;
  const Manifest& manifest = *package.manifest;
  v1::PackageVersion* version = reply.mutable_package();
  version->set_package(manifest.package);
  version->set_version(manifest.version);
  version->set_description(manifest.description);
  version->mutable_labels()->insert(manifest.labels.begin(), manifest.labels.end());
  for (const PackageSource& source : package.sources) {
    for (const Machine& one : source.parsed.definitions) {
      AddDocument(KindName(one.defined_as), one.id, source, version);
    }
    for (const Document& one : source.parsed.documents) {
      AddDocument(Name(one.kind()), one.name, source, version);
    }
  }
  const auto actions = ActionsOfWorkers(package);
  for (size_t i = 0; i < manifest.workers.size(); ++i) {
    const Worker& worker = manifest.workers[i];
    v1::PackageWorker* shown = version->add_workers();
    shown->set_name(worker.name);
    shown->mutable_serves()->Add(worker.serves.begin(), worker.serves.end());
    shown->mutable_capabilities()->Add(worker.required.begin(), worker.required.end());
    for (const std::string& secret : SecretsOf(worker)) shown->add_secrets(secret);
    shown->mutable_actions()->Add(actions[i].begin(), actions[i].end());
  }
  return reply;
}

void PrintChecked(Context& context, const Subject& subject, const CheckedPackage& package) {
  const Manifest& manifest = *package.manifest;
  if (context.names()) {
    context.out << manifest.FullName() << '\n';
    return;
  }
  size_t documents = 0;
  for (const PackageSource& source : package.sources) {
    documents += source.parsed.definitions.size() + source.parsed.documents.size();
  }
  context.out << "package " << manifest.FullName() << "  " << Painted("ok", context.look) << "  "
              << Plural(documents, "document") << "  " << Plural(manifest.workers.size(), "worker")
              << "  " << Escaped(subject.name) << '\n';
}

}  // namespace

int CheckPackages(Context& context, const PackageOptions& options) {
  size_t wrong = 0;
  std::string lines;
  const size_t all = options.places.size();
  for (const std::string& place : options.places) {
    const auto subject = OpenSubject(place);
    const bool refused = !subject && subject.error().code == Code::kInvalidArgument;
    if (!subject && (!refused || all == 1)) return FailToOpen(context, place, subject.error());
    const auto package = subject ? CheckSubject(*subject) : subject.error();
    if (!package) {
      const std::string_view reason = Name(package.error().reason);
      if (all == 1) return FailToOpen(context, place, package.error());
      lines += Escaped(place + ": " + std::string(reason) + ": " + package.error().message) + "\n";
      ++wrong;
      continue;
    }
    const v1::PutPackageResponse reply = ReplyOf(*package);
    const bool shown = all == 1 ? context.Print(reply) : context.PrintOne(reply);
    context.out.flush();
    if (!package->ok()) {
      ++wrong;
      lines += LinesOf(package->diagnostics);
      continue;
    }
    context.err << LinesOf(package->diagnostics);
    if (!shown) PrintChecked(context, *subject, *package);
  }
  if (wrong == 0) return kSucceeded;
  return context.Fail(kRefused,
                      Plural(wrong, "package") + " of " + std::to_string(all) +
                          (wrong == 1 ? " has errors" : " have errors"),
                      "each line says where, and what would be right", lines);
}

}  // namespace dfsmr::cli
