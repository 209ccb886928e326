// The words of `dcli package` that ask a server: its registry of packages.

#include "dcli/package/registry.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dcli/call/packages.h"
#include "dcli/call/pages.h"
#include "dcli/package/package.h"
#include "dcli/package/signing.h"
#include "dcli/package/tool.h"
#include "dcli/package/versions.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "storage/archive/files.h"
#include "storage/signatures/signatures.h"

namespace dfsmr::cli {
namespace registry_words {

constexpr size_t kPiece = 1 << 20;
constexpr std::string_view kSha = "sha256:";
constexpr size_t kDigits = 8;  // of a digest, at least

NamedVersion Split(const std::string& text) {
  if (text.starts_with(kSha)) return {"", text};
  const size_t at = text.find('@');
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

}  // namespace registry_words

std::string FullName(const v1::PackageVersion& one) { return one.package() + "@" + one.version(); }

std::string Word(v1::PackageVersion::State state) {
  return state == v1::PackageVersion::STATE_UNSPECIFIED
             ? ""
             : Lower(v1::PackageVersion::State_Name(state));
}

std::string Word(v1::PackageVersion::Verdict verdict) {
  return verdict == v1::PackageVersion::VERDICT_UNSPECIFIED
             ? ""
             : v1::PackageVersion::Verdict_Name(verdict);
}

Result<ScratchFolder> ScratchFolder::Make() {
  std::string folder = (std::filesystem::temp_directory_path() / "dcli-package-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return Error{Code::kInvalidArgument, Reason::kNone, "no folder can be made in " + folder};
  }
  ScratchFolder made;
  made.path_ = folder;
  return made;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

static Result<v1::ListPackagesResponse> VersionsOf(Context& context, const std::string& package) {
  v1::ListPackagesRequest request;
  request.set_namespace_(context.name_space);
  request.set_package(package);
  return AllPages(request, [&context](const auto& one) {
    return context.client->packages().ListPackages(one);
  });
}

Result<NamedVersion> Resolved(Context& context, const std::string& text) {
  NamedVersion named = registry_words::Split(text);
  const bool shortened = named.version.starts_with(registry_words::kSha) &&
                         named.version.size() < registry_words::kSha.size() + 64;
  if (!shortened) return named;
  if (named.version.size() < registry_words::kSha.size() + registry_words::kDigits) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 "a digest takes 8 digits or more: " + text};
  }
  std::vector<std::string> packages = {named.package};
  if (named.package.empty()) {
    auto all = VersionsOf(context, "");
    if (!all) return all.error();
    packages.clear();
    for (const v1::PackageVersion& one : all->packages()) packages.push_back(one.package());
  }
  std::vector<NamedVersion> found;
  for (const std::string& package : packages) {
    auto versions = VersionsOf(context, package);
    if (!versions) return versions.error();
    for (const v1::PackageVersion& one : versions->packages()) {
      if (one.digest().starts_with(named.version)) found.push_back({package, one.version()});
    }
  }
  if (found.size() == 1) return found.front();
  return Error{Code::kNotFound, Reason::kNoSuchPackage,
               found.empty() ? "no version has the digest " + named.version
                             : "several versions have a digest that begins so: " + named.version};
}

namespace registry_words {

std::string DigestOf(std::ifstream& file) {
  ArchiveHasher hasher;
  std::string piece(kPiece, '\0');
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    hasher.Add(std::string_view(piece).substr(0, static_cast<size_t>(file.gcount())));
  }
  file.clear();
  return hasher.Take().Digest();
}

// `signature`: besides those in the file beside it; empty: none.
Result<v1::PutPackageResponse> Push(Context& context, const std::string& path, bool dry_run,
                                    const std::string& signature) {
  std::ifstream file(path, std::ios::binary);
  std::error_code failed;
  const uint64_t size = std::filesystem::file_size(path, failed);
  if (!file || failed) {
    return Error{Code::kInvalidArgument, Reason::kNone, path + " cannot be read"};
  }
  v1::PutPackageRequest::Header header;
  header.set_namespace_(context.name_space);
  header.set_digest(DigestOf(file));
  header.set_size(size);
  header.set_validate_only(dry_run);
  if (const std::ifstream beside(path + ".sig", std::ios::binary); beside) {
    std::ostringstream text;
    text << beside.rdbuf();
    for (const std::string& one : SignaturesIn(text.str())) header.add_signatures(one);
  }
  if (!signature.empty()) header.add_signatures(signature);
  file.seekg(0);
  return context.client->packages().PutPackage(header, [&](uint64_t) -> Result<std::string> {
    std::string piece(kPiece, '\0');
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    piece.resize(static_cast<size_t>(file.gcount()));
    return piece;
  });
}

std::string WordOf(v1::DocumentChange::What what) {
  switch (what) {
    case v1::DocumentChange::ADDED:
      return "added";
    case v1::DocumentChange::CHANGED:
      return "changed";
    case v1::DocumentChange::SAME:
      return "same";
    case v1::DocumentChange::RETIRED:
      return "retired";
    case v1::DocumentChange::ADOPTED:
      return "adopted";
    default:
      return "";
  }
}

// `share`: in percent, of a candidate.
int Show(Context& context, const v1::ActivatePackageResponse& done, const std::string& package,
         double share = 0) {
  if (context.Print(done)) return kSucceeded;
  const std::string now = done.has_package() ? FullName(done.package()) : "none";
  if (context.names()) {
    if (done.has_package()) context.out << now << '\n';
    return kSucceeded;
  }
  Table table({"KIND", "ID", "VERSION", "WHAT", "STRATEGY", "INSTANCES"});
  for (const v1::DocumentChange& one : done.documents()) {
    table.Add({one.kind(), one.id(), one.version() > 0 ? std::to_string(one.version()) : "",
               WordOf(one.what()), one.upgrade_strategy(),
               one.affected_instances() > 0 ? std::to_string(one.affected_instances()) : ""});
  }
  if (done.documents_size() > 0) table.Print(context.out, context.look);
  for (const v1::Diagnostic& one : done.diagnostics()) {
    context.err << one.source_name() << ':' << one.line() << ':' << one.column()
                << ": warning: " << one.message() << '\n';
  }
  const std::string& name = done.has_package() ? done.package().package() : package;
  const std::string before = done.previous().empty() ? "none" : name + "@" + done.previous();
  if (share > 0 && before != now) {
    context.out << now << " is the candidate, for " << share << " % of the starts; " << before
                << " is active\n";
  } else if (!done.changed()) {
    context.out << (done.has_package() ? now : "no version of " + package) << " is active\n";
  } else if (before == now) {
    context.out << "the candidate is ended; " << now << " is active\n";
  } else {
    context.out << before << " -> " << now << '\n';
  }
  return kSucceeded;
}

Result<double> Percent(const std::string& text) {
  if (text.empty()) return 0.0;
  char* end = nullptr;
  const double percent = std::strtod(text.c_str(), &end);
  if (*end == '\0' && percent >= 0.01 && percent <= 100) return percent;
  return Error{Code::kInvalidArgument, Reason::kBadRequest,
               "--percent takes a number from 0.01 to 100, not \"" + text + "\""};
}

Result<v1::ActivatePackageRequest> RequestOf(Context& context, const PackageOptions& options) {
  v1::ActivatePackageRequest request;
  auto percent = Percent(options.percent);
  if (!percent) return percent.error();
  request.set_namespace_(context.name_space);
  request.set_percent(*percent);
  request.set_if_active(options.if_active);
  request.set_adopt(options.adopt);
  request.set_force(options.force);
  request.set_validate_only(options.dry_run);
  request.set_note(options.note);
  return request;
}

int Activate(Context& context, v1::ActivatePackageRequest request, const std::string& package) {
  auto done = context.client->packages().ActivatePackage(request);
  if (!done) return context.Fail(done.error());
  return Show(context, *done, package, request.percent() < 100 ? request.percent() : 0);
}

Result<v1::PutPackageResponse> Push(Context& context, const std::string& path, bool dry_run) {
  return Push(context, path, dry_run, "");
}

int PushOne(Context& context, const std::string& path, const PackageOptions& options) {
  if (!std::ifstream(path)) {
    return context.Fail(kBadUsage, "cannot read " + path + ": " + std::strerror(errno));
  }
  std::string signature;
  if (!options.sign_with.empty()) {
    std::string hint;
    auto made = SignedBy(options.sign_with, path, &hint);
    if (!made) return context.Fail(kRefused, made.error().message, hint);
    signature = *std::move(made);
  }
  auto put = Push(context, path, options.dry_run, signature);
  if (!put) return context.Fail(put.error());
  for (const v1::Diagnostic& one : put->diagnostics()) {
    context.err << one.source_name() << ':' << one.line() << ':' << one.column()
                << ": warning: " << one.message() << '\n';
  }
  const v1::PackageVersion& one = put->package();
  if (!context.PrintOne(*put)) {
    context.out << FullName(one);
    if (!context.names()) {
      context.out << "  " << one.digest() << "  "
                  << (options.dry_run  ? "sound"
                      : put->created() ? "pushed"
                                       : "there already")
                  << "  " << Word(one.verdict());
    }
    context.out << '\n';
  }
  if (!options.activate || options.dry_run) return kSucceeded;
  auto request = RequestOf(context, options);
  if (!request) return context.FailUsage(request.error());
  request->set_package(one.package());
  request->set_version(one.version());
  return Activate(context, *request, one.package());
}

}  // namespace registry_words

int PushPackages(Context& context, const PackageOptions& options) {
  const bool of_activate = !options.percent.empty() || !options.if_active.empty() ||
                           options.adopt || options.force || !options.note.empty();
  if (of_activate && !options.activate) {
    return context.Fail(kBadUsage, "how to activate it is said, and not to: push takes --percent, "
                                   "--if-active, --adopt, --force and --note with --activate");
  }
  if (const auto sound = registry_words::Percent(options.percent); !sound) {
    return context.FailUsage(sound.error());  // before anything is sent
  }
  for (const std::string& place : options.places) {
    int status = kSucceeded;
    if (std::filesystem::is_directory(place)) {
      const auto folder = ScratchFolder::Make();
      if (!folder) return context.Fail(kRefused, folder.error().message);
      const std::string path = folder->path() + "/package.dfsmr";
      status = BuildFolder(context, place, path);
      if (status == kSucceeded) status = registry_words::PushOne(context, path, options);
    } else {
      status = registry_words::PushOne(context, place, options);
    }
    if (status != kSucceeded) return status;
  }
  return kSucceeded;
}

int ActivatePackage(Context& context, const PackageOptions& options) {
  auto named = Resolved(context, options.places.front());
  if (!named) return context.Fail(named.error());
  if (named->version.empty()) {
    return context.Fail(kBadUsage, "which version? Write " + named->package + "@VERSION");
  }
  auto request = registry_words::RequestOf(context, options);
  if (!request) return context.FailUsage(request.error());
  request->set_package(named->package);
  request->set_version(named->version);
  return registry_words::Activate(context, *request, named->package);
}

int RollbackPackage(Context& context, const PackageOptions& options) {
  auto request = registry_words::RequestOf(context, options);
  if (!request) return context.FailUsage(request.error());
  request->set_package(options.places.front());
  request->set_rollback(true);
  return registry_words::Activate(context, *request, options.places.front());
}

int DeactivatePackage(Context& context, const PackageOptions& options) {
  v1::DeactivatePackageRequest request;
  request.set_namespace_(context.name_space);
  request.set_package(options.places.front());
  request.set_if_active(options.if_active);
  request.set_force(options.force);
  request.set_validate_only(options.dry_run);
  request.set_note(options.note);
  auto done = context.client->packages().DeactivatePackage(request);
  if (!done) return context.Fail(done.error());
  return registry_words::Show(context, *done, options.places.front());
}

int ListPackages(Context& context, const PackageOptions& options) {
  auto all = VersionsOf(context, options.places.empty() ? "" : options.places.front());
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  Table table({"PACKAGE", "STATE", "LIVE", "SIZE", "VERDICT", "PUT", "DIGEST"});
  for (const v1::PackageVersion& one : all->packages()) {
    if (context.names()) {
      context.out << FullName(one) << '\n';
      continue;
    }
    table.Add({FullName(one), Word(one.state()), std::to_string(one.stats().live()),
               std::to_string(one.size()),
               Word(one.verdict()) + (one.blocked().empty() ? "" : " (blocked)"),
               When(one.put_time(), context.look), one.digest()});
  }
  if (!context.names()) table.Print(context.out, context.look);
  return kSucceeded;
}

namespace registry_words {

void ShowHead(Context& context, const v1::PackageVersion& one) {
  context.out << FullName(one) << "  " << Word(one.state());
  if (one.state() == v1::PackageVersion::CANDIDATE) context.out << " " << one.percent() << " %";
  context.out << "  " << one.digest() << "\n";
  if (!one.description().empty()) context.out << Escaped(one.description()) << '\n';
  context.out << one.size() << " bytes, put " << When(one.put_time(), context.look);
  if (!one.put_by().empty()) context.out << " by " << Escaped(one.put_by());
  context.out << "\n" << Word(one.verdict());
  if (!one.blocked().empty()) context.out << ", blocked: " << Escaped(one.blocked());
  context.out << '\n';
  for (const v1::Signature& signature : one.signatures()) {
    context.out << "signed with " << signature.fingerprint() << "  "
                << (signature.key_name().empty() ? "of no key that is known"
                                                 : Escaped(signature.key_name()))
                << (signature.revoked() ? ", revoked" : "") << '\n';
  }
  context.out << '\n';
}

void ShowWorkers(Context& context, const v1::PackageVersion& one) {
  if (one.workers_size() == 0) return;
  const auto list = [](const auto& words) { return Join({words.begin(), words.end()}, ", "); };
  Table workers({"WORKER", "SERVES", "REQUIRES", "SECRETS"});
  for (const v1::PackageWorker& worker : one.workers()) {
    workers.Add({worker.name(), list(worker.serves()), list(worker.capabilities()),
                 list(worker.secrets())});
  }
  context.out << '\n';
  workers.Print(context.out, context.look);
}

void ShowActivation(Context& context, const v1::Activation& one) {
  context.out << When(one.time(), context.look) << "  "
              << (one.version().empty() ? "deactivated" : one.version());
  if (one.percent() > 0) context.out << "  " << one.percent() << " %";
  if (one.rollback()) context.out << "  rollback";
  if (!one.by().empty()) context.out << "  by " << Escaped(one.by());
  if (!one.note().empty()) context.out << "  " << Escaped(one.note());
  context.out << '\n';
}

}  // namespace registry_words

int ShowPackage(Context& context, const PackageOptions& options) {
  auto named = Resolved(context, options.places.front());
  if (!named) return context.Fail(named.error());
  v1::GetPackageRequest request;
  request.set_namespace_(context.name_space);
  request.set_package(named->package);
  request.set_version(named->version);
  request.set_with_files(options.files);
  request.set_with_activations(options.history);
  auto one = context.client->packages().GetPackage(request);
  if (!one) return context.Fail(one.error());
  if (context.Print(*one)) return kSucceeded;
  if (context.names()) {
    context.out << FullName(*one) << '\n';
    return kSucceeded;
  }
  registry_words::ShowHead(context, *one);
  const v1::PackageStats& stats = one->stats();
  Table counts({"LIVE", "SUCCESS", "WARNING", "ERROR", "CANCELLED"});
  counts.Add({std::to_string(stats.live()), std::to_string(stats.success()),
              std::to_string(stats.warning()), std::to_string(stats.error()),
              std::to_string(stats.cancelled())});
  counts.Print(context.out, context.look);
  Table documents({"KIND", "ID", "VERSION", "FILE"});
  for (const v1::PackageDocument& document : one->documents()) {
    documents.Add(
        {document.kind(), document.id(), std::to_string(document.version()), document.path()});
  }
  context.out << '\n';
  documents.Print(context.out, context.look);
  registry_words::ShowWorkers(context, *one);
  for (const v1::PackageFile& file : one->files()) {
    context.out << file.path() << (file.link().empty() ? "" : " -> " + file.link()) << '\n';
  }
  for (const v1::Activation& activation : one->activations()) {
    registry_words::ShowActivation(context, activation);
  }
  return kSucceeded;
}

int CatPackage(Context& context, const PackageOptions& options) {
  auto named = Resolved(context, options.places.front());
  if (!named) return context.Fail(named.error());
  v1::FetchPackageRequest request;
  request.set_namespace_(context.name_space);
  request.set_package(named->package);
  request.set_version(named->version);
  request.set_path(options.places.at(1));
  auto fetched =
      context.client->packages().FetchPackage(request, [&](const v1::FetchPackageResponse& piece) {
        context.out << piece.data();
        return context.out.good();
      });
  return fetched ? kSucceeded : context.Fail(fetched.error());
}

Result<v1::PackageVersion> FetchArchive(Context& context, const NamedVersion& named,
                                        std::string* path) {
  v1::FetchPackageRequest request;
  request.set_namespace_(context.name_space);
  request.set_package(named.package);
  request.set_version(named.version);
  std::string part;
  std::string why;
  std::ofstream file;
  v1::PackageVersion whole;
  auto fetched =
      context.client->packages().FetchPackage(request, [&](const v1::FetchPackageResponse& piece) {
        if (piece.has_package()) {
          whole = piece.package();
          if (path->empty()) *path = whole.package() + "-" + whole.version() + ".dfsmr";
          part = *path + ".part";
          file.open(part, std::ios::binary | std::ios::trunc);
        }
        if (file) file << piece.data() << std::flush;
        if (!file) why = std::strerror(errno);
        return why.empty();
      });
  file.close();
  std::error_code ignored;
  if (!fetched) {
    if (!part.empty()) std::filesystem::remove(part, ignored);
    return fetched.error();
  }
  std::ifstream read(part, std::ios::binary);
  if (why.empty() && read && registry_words::DigestOf(read) == whole.digest()) return whole;
  std::filesystem::remove(part, ignored);
  return Error{
      Code::kInvalidArgument, Reason::kNone,
      "cannot write " + *path + ": " + (why.empty() ? "it is not as it is on the server" : why)};
}

int PullPackage(Context& context, const PackageOptions& options) {
  auto named = Resolved(context, options.places.front());
  if (!named) return context.Fail(named.error());
  const bool keeps = options.unpack.empty() || !options.out.empty();
  auto scratch = ScratchFolder::Make();
  if (!scratch) return context.Fail(scratch.error());
  const std::string wanted = keeps ? options.out : options.unpack + ".dfsmr";
  const Target target = TargetOf(wanted);
  // Beside its place, to be moved there; what cannot be replaced gets it when it is whole.
  std::string path = target.replaced ? target.path : scratch->path() + "/package.dfsmr";
  if (wanted.empty()) path.clear();
  auto whole = FetchArchive(context, *named, &path);
  if (!whole) return context.Fail(whole.error());
  const std::string part = path + ".part";
  std::error_code failed;
  if (!options.unpack.empty()) {
    auto unpacked = Unpack(part, options.unpack);
    if (!unpacked) {
      std::filesystem::remove(part, failed);
      return context.Fail(kRefused, unpacked.error().message);
    }
  }
  if (keeps) {
    if (auto put = MoveTo(part, wanted.empty() ? path : wanted); !put) {
      return context.Fail(put.error());
    }
  } else {
    std::filesystem::remove(part, failed);
  }
  if (context.Print(*whole)) return kSucceeded;
  const std::string& shown = !keeps ? options.unpack : wanted.empty() ? path : wanted;
  context.out << (context.names() ? FullName(*whole) : shown) << '\n';
  return kSucceeded;
}

int RemovePackage(Context& context, const PackageOptions& options) {
  v1::RemovePackageRequest request;
  request.set_namespace_(context.name_space);
  request.set_validate_only(options.dry_run);
  if (options.keep.empty()) {
    auto named = Resolved(context, options.places.front());
    if (!named) return context.Fail(named.error());
    if (named->version.empty()) {
      return context.Fail(kBadUsage, "which version? Write " + named->package +
                                         "@VERSION, or --keep N for all but the newest N");
    }
    request.set_package(named->package);
    request.set_version(named->version);
  } else {
    request.set_package(options.places.front());
    request.set_all_but(true);
    uint32_t keep = 0;
    const char* end = options.keep.data() + options.keep.size();
    const auto read = std::from_chars(options.keep.data(), end, keep);
    if (read.ec != std::errc() || read.ptr != end) {
      return context.Fail(kBadUsage, "--keep takes a number from 0, not \"" + options.keep + "\"");
    }
    const std::string& place = options.places.front();
    if (const size_t at = place.find('@'); at != place.npos) {
      return context.Fail(kBadUsage, "--keep is for a package, " + place.substr(0, at) +
                                         ", and not for one of its versions");
    }
    request.set_keep(keep);
  }
  auto done = context.client->packages().RemovePackage(request);
  if (!done) return context.Fail(done.error());
  if (context.Print(*done)) return kSucceeded;
  const std::string package = request.package();
  for (const std::string& version : done->removed()) {
    context.out << package << '@' << version << (context.names() ? "" : "  removed") << '\n';
  }
  for (const auto& kept : done->kept()) {
    if (!context.names()) {
      context.out << package << '@' << kept.version() << "  kept: " << kept.why() << '\n';
    }
  }
  return kSucceeded;
}

}  // namespace dfsmr::cli
