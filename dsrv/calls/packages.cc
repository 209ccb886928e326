#include "dsrv/calls/packages.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/definitions.h"
#include "dsrv/calls/method.h"
#include "dsrv/calls/own_names.h"
#include "dsrv/engine/compile.h"
#include "dsrv/engine/packages.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/packages.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/yaml/definitions.h"
#include "fsm/yaml/places.h"

namespace dfsmr {
namespace {

constexpr size_t kActivationsShown = 1'000;
constexpr size_t kNote = 1'000;
constexpr size_t kFilesShownBytes = 6 << 20;

// Of a version, in the tokens of pages.
std::string NameOf(const std::string& package, const std::string& version) {
  return package + '\n' + version;
}

}  // namespace

std::string IdOf(const Caller& caller) {
  return caller.principal() ? caller.principal()->row.id : "";
}

SeenPackage See(const Packages& packages, const PackageVersion& version) {
  return {version.package, version.version, packages.StandingOf(version)};
}

Result<Ok> ShowPackage(const Moment& moment, const std::string& ns, const SeenPackage& seen,
                       v1::PackageVersion* out) {
  auto row = rows::GetPackageVersion(moment.rows, ns, seen.package, seen.version);
  if (!row) return row.error();
  if (!*row || (*row)->removed) {
    return Error{Code::kNotFound, Reason::kNoSuchPackage, "the version was removed just now"};
  }
  ToProto(**row, seen.standing, out);
  return ShowSignatures(moment, **row, seen.standing, out);
}

// Lists -----------------------------------------------------------------------------------------

Result<ListPackagesCommand> ParseListPackages(const v1::ListPackagesRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  ListPackagesCommand command{*ns,    request.package(),
                              *limit, *ns + '\n' + request.package(),
                              {},     std::make_shared<std::vector<SeenPackage>>()};
  auto after = ParsePageToken(command.filters, request.page_token());
  if (!after) return after.error();
  command.after = *std::move(after);
  return command;
}

Result<Ok> SettleListPackages(Engine& engine, const Caller&, const ListPackagesCommand& command) {
  const Packages& packages = engine.packages();
  const auto& all = packages.table().all();
  std::vector<const PackageVersion*> listed;
  for (auto it = all.lower_bound({command.ns, command.package});
       it != all.end() && it->first.first == command.ns; ++it) {
    if (!command.package.empty() && it->first.second != command.package) break;
    std::vector<const PackageState::Known*> known;
    for (const auto& [version, one] : it->second.versions) {
      if (!one.removed) known.push_back(&one);
    }
    std::ranges::sort(known, std::ranges::greater(), &PackageState::Known::put_time);
    if (command.package.empty() && !known.empty()) {
      const PackageState::Known* active = it->second.Find(it->second.force.active);
      known = {active ? active : known.front()};
    }
    for (const PackageState::Known* one : known) listed.push_back(one->version.get());
  }
  auto at = listed.begin();
  if (!command.after.empty()) {
    at = std::ranges::find(listed, command.after, [](const PackageVersion* one) {
      return NameOf(one->package, one->version);
    });
    if (at != listed.end()) ++at;
  }
  // One more than a page shows whether there is a next one.
  for (; at != listed.end() && command.seen->size() <= command.limit; ++at) {
    command.seen->push_back(See(packages, **at));
  }
  return Ok{};
}

Result<Ok> ReadListPackages(const Reader& reader, const ListPackagesCommand& command,
                            v1::ListPackagesResponse* reply) {
  const Moment moment(reader);
  size_t bytes = 0;
  for (auto at = command.seen->begin(); at != command.seen->end(); ++at) {
    auto row = rows::GetPackageVersion(moment.rows, command.ns, at->package, at->version);
    if (!row) return row.error();
    if (!*row) continue;
    v1::PackageVersion shown;
    ToProto(**row, at->standing, &shown);
    if (auto read = ShowSignatures(moment, **row, at->standing, &shown); !read) return read;
    shown.clear_manifest();  // GetPackage shows it
    bytes += shown.ByteSizeLong();
    const bool full =
        reply->packages_size() == static_cast<int>(command.limit) || bytes > kReplyBytes;
    if (full && reply->packages_size() > 0) {
      const SeenPackage& last = *std::prev(at);
      reply->set_next_page_token(PageToken(command.filters, NameOf(last.package, last.version)));
      break;
    }
    *reply->add_packages() = std::move(shown);
  }
  return Ok{};
}

Result<GetPackageCommand> ParseGetPackage(const v1::GetPackageRequest& request, const Call& call) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  call.caller().On(request.package(), request.version());
  return GetPackageCommand{*ns,
                           request.package(),
                           request.version(),
                           request.with_files(),
                           request.with_activations(),
                           std::make_shared<SeenPackage>()};
}

Result<Ok> MayHave(const Caller& caller, const std::string& package) {
  const Principal* who = caller.principal();
  if (!who || who->row.machines.empty()) return Ok{};
  const std::string prefix = package + ".";
  const bool of_it = std::ranges::any_of(
      who->row.machines, [&](const std::string& one) { return one.starts_with(prefix); });
  if (of_it) return Ok{};
  return Error{Code::kPermissionDenied, Reason::kNotAllowed,
               "this token is limited to machines, none of which is of package " + Quoted(package)};
}

Result<Ok> SettleGetPackage(Engine& engine, const Caller& caller,
                            const GetPackageCommand& command) {
  auto known = engine.packages().Find(command.ns, command.package, command.version);
  if (!known) return known.error();
  *command.seen = See(engine.packages(), *known->version);
  return MayHave(caller, command.seen->package);
}

Result<Ok> ReadGetPackage(const Reader& reader, const GetPackageCommand& command,
                          v1::PackageVersion* reply) {
  const Moment moment(reader);
  const SeenPackage& seen = *command.seen;
  auto row = rows::GetPackageVersion(moment.rows, command.ns, seen.package, seen.version);
  if (!row) return row.error();
  if (!*row || (*row)->removed) {
    return Error{Code::kNotFound, Reason::kNoSuchPackage, "the version was removed just now"};
  }
  ToProto(**row, seen.standing, reply);
  if (auto read = ShowSignatures(moment, **row, seen.standing, reply); !read) return read;
  if (command.with_files) {
    size_t bytes = 0;
    for (const rows::PackageFile& file : (*row)->files) {
      if ((bytes += file.path.size() + file.link.size() + 16) > kFilesShownBytes) break;
      v1::PackageFile* to = reply->add_files();
      to->set_path(file.path);
      to->set_size(file.size);
      to->set_executable(file.executable);
      to->set_link(file.link);
    }
  }
  if (!command.with_activations) return Ok{};
  auto activations = rows::GetActivations(moment.rows, command.ns, seen.package, kActivationsShown);
  if (!activations) return activations.error();
  for (const rows::ActivationRow& one : *activations) ToProto(one, reply->add_activations());
  return Ok{};
}

// Activation ------------------------------------------------------------------------------------

namespace {

void Show(const Activated& done, v1::ActivatePackageResponse* reply) {
  if (done.package) {
    reply->mutable_package()->set_namespace_(done.package->ns);
    reply->mutable_package()->set_package(done.package->package);
    reply->mutable_package()->set_version(done.package->version);
    reply->mutable_package()->set_digest(done.package->digest);
  }
  reply->set_previous(done.previous);
  reply->set_changed(done.changed);
  for (const DocumentChange& one : done.documents) ToProto(one, reply->add_documents());
}

// A file with documents, as it is read.
struct ReadFile {
  std::string path;
  std::string text;
  Parsed parsed;
  std::vector<size_t> machines;  // where its machines are in the sources
};

// One activation on its way. The loop says what is asked for, the pool reads and compiles that, and
// the loop decides; when something else was defined meanwhile, all begins again.
class ActivateCall : public std::enable_shared_from_this<ActivateCall> {
 public:
  ActivateCall(Call& call, ActivateArgs args, v1::ActivatePackageResponse* reply)
      : call_(call), args_(std::move(args)), reply_(reply) {}

  void Begin() {
    GatherLive(call_.backend(), args_.ns, Counting::kShown, /*settle=*/false,
               [self = shared_from_this()](const Result<LiveCounts>& elsewhere) {
                 if (elsewhere) self->elsewhere_ = *elsewhere;
                 self->Post([self](Engine& engine) { self->Ask(engine); });
               });
  }

 private:
  // With what others have.
  void Post(std::function<void(Engine&)> run) {
    PostFor(call_, 0, [self = shared_from_this(), run = std::move(run)](Engine& engine) {
      const CountsElsewhere counted(engine, self->args_.ns, self->elsewhere_);
      run(engine);
    });
  }

  void Ask(Engine& engine) {
    auto asked = engine.packages().Ask(args_);
    if (!asked || asked->done) {
      done_ = asked ? Result<Activated>(*std::move(asked->done)) : asked.error();
      return Answer(engine);
    }
    asked_ = *std::move(asked);
    // What was put is durable, since its call was answered.
    call_.backend().pool.Post(
        [self = shared_from_this(), now = engine.now()] { self->Compile(now); });
  }

  void Compile(Timestamp now) {
    if (auto read = Read(); !read) return call_.Fail(read.error());
    compiled_ = CompileAll(asked_.under, sources_, unsound_, now);
    Post([self = shared_from_this()](Engine& engine) { self->Decide(engine); });
  }

  Result<Ok> Read() {
    const Reader& reader = call_.backend().reader;
    files_.clear();
    sources_ = {};
    unsound_.clear();
    const Moment moment(reader);
    auto texts = rows::GetPackageTexts(moment.rows, args_.ns, asked_.upload);
    if (!texts) return texts.error();
    for (auto& [path, text] : *texts) {
      auto& file = files_.emplace_back(std::make_unique<ReadFile>());
      file->path = path;
      file->text = std::move(text);
      file->parsed = ParseDefinitions(file->text, path, call_.backend().zones);
      std::ranges::copy(file->parsed.unsound, std::back_inserter(unsound_));
      for (Machine& one : file->parsed.definitions) {
        OwnMachine(*asked_.version, &one);
        sources_.machines.push_back(std::move(one));
        places_.push_back(file.get());
      }
    }
    for (const auto& file : files_) {
      for (Document& one : file->parsed.documents) {
        OwnDocument(*asked_.version, &one);
        sources_.documents.push_back(std::move(one));
        places_.push_back(file.get());
      }
    }
    return Ok{};
  }

  void Decide(Engine& engine) {
    auto done = engine.packages().Activate(args_, &sources_, &compiled_);
    if (!done) {
      places_.clear();
      return Ask(engine);
    }
    done_ = *std::move(done);
    Answer(engine);
  }

  void Answer(Engine& engine) {
    engine.packages().Answered(args_, done_);
    if (done_ && done_->package) seen_ = See(engine.packages(), *done_->package);
    engine.AfterCommit([self = shared_from_this()] { self->Tell(); });
  }

  void Tell() {
    if (done_) {
      Show(*done_, reply_);
      for (const Diagnostic& one : Problems(/*errors=*/false)) {
        ToProto(one, reply_->add_diagnostics());
      }
      if (!done_->package) return call_.Succeed();
      return call_.backend().pool.Post([self = shared_from_this()] { self->ShowNow(); });
    }
    if (done_.error().reason != Reason::kBadPackage) return call_.Fail(done_.error());
    call_.backend().pool.Post([self = shared_from_this()] {
      RefuseSource(self->call_, self->Problems(/*errors=*/true), Reason::kBadPackage);
    });
  }

  void ShowNow() {
    const Moment moment(call_.backend().reader);
    // Removed meanwhile, it is shown as far as it is known.
    (void)ShowPackage(moment, args_.ns, seen_, reply_->mutable_package());
    reply_->mutable_package()->clear_manifest();  // GetPackage shows it
    call_.Succeed();
  }

  // What compiling has found, with its places.
  std::vector<Diagnostic> Problems(bool errors) const {
    std::vector<Diagnostic> found;
    for (const auto& [definition, problem] : compiled_.problems) {
      if (problem.warning == errors || definition >= places_.size()) continue;
      const ReadFile& file = *places_[definition];
      Reporter reporter(file.path);
      Written written = PlaceOf(problem, *file.parsed.tree);
      if (errors) {
        reporter.Error(written.at, std::move(written.path), problem.message);
      } else {
        reporter.Warning(written.at, std::move(written.path), problem.message);
      }
      std::ranges::move(std::move(reporter).Take(), std::back_inserter(found));
    }
    return found;
  }

  Call& call_;
  const ActivateArgs args_;
  v1::ActivatePackageResponse* const reply_;
  Packages::Asked asked_;
  std::vector<std::unique_ptr<ReadFile>> files_;
  Sources sources_;
  std::vector<const ReadFile*> places_;  // of the machines, then of the documents
  std::vector<std::string> unsound_;
  Compiled compiled_;
  Result<Activated> done_ = Activated();
  SeenPackage seen_;
  LiveCounts elsewhere_;
};

Result<ActivateArgs> ToActivate(const v1::ActivatePackageRequest& request, const Call& call) {
  ActivateArgs args;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  args.ns = *ns;
  args.package = request.package();
  args.version = request.version();
  args.rollback = request.rollback();
  if (request.rollback() != request.version().empty()) {
    return Bad(request.rollback() ? "a rollback names no version: it goes to the one before"
                                  : "the version to activate is missing");
  }
  auto share = ToShare(request.percent());
  if (!share) return share.error();
  if (request.rollback() && *share > 0) return Bad("a rollback takes no percent");
  args.share = *share;
  if (auto text = CheckText("note", request.note(), kNote); !text) return text.error();
  if (!request.if_active().empty()) {
    args.if_active = request.if_active() == "none" ? "" : request.if_active();
  }
  args.adopt = request.adopt();
  args.force = request.force();
  args.validate_only = request.validate_only();
  args.note = request.note();
  args.by = IdOf(call.caller());
  return args;
}

}  // namespace

void ServeActivatePackage(Call& call, const v1::ActivatePackageRequest& request,
                          v1::ActivatePackageResponse* reply) {
  call.caller().On(
      request.package() + (request.rollback() ? "" : "@" + request.version()),
      request.validate_only() ? "validate only" : (request.rollback() ? "rollback" : ""));
  auto args = ToActivate(request, call);
  if (!args) return call.Refuse(args.error());
  if (!call.Enter()) return;
  std::make_shared<ActivateCall>(call, *std::move(args), reply)->Begin();
}

Result<ActivateArgs> ParseDeactivatePackage(const v1::DeactivatePackageRequest& request,
                                            const Call& call) {
  call.caller().On(request.package(), request.validate_only() ? "validate only" : "");
  ActivateArgs args;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (auto text = CheckText("note", request.note(), kNote); !text) return text.error();
  args.ns = *ns;
  args.package = request.package();
  if (!request.if_active().empty()) {
    args.if_active = request.if_active() == "none" ? "" : request.if_active();
  }
  args.force = request.force();
  args.validate_only = request.validate_only();
  args.note = request.note();
  args.by = IdOf(call.caller());
  return args;
}

Result<Activated> RunDeactivatePackage(Engine& engine, const Caller&, ActivateArgs& args) {
  auto done = engine.packages().Deactivate(args);
  engine.packages().Answered(args, done);
  return done;
}

void ReplyDeactivatePackage(const Activated& done, const ActivateArgs&,
                            v1::ActivatePackageResponse* reply) {
  Show(done, reply);
}

Result<RemoveArgs> ParseRemovePackage(const v1::RemovePackageRequest& request, const Call& call) {
  call.caller().On(request.package() + (request.all_but() ? "" : "@" + request.version()),
                   request.all_but() ? "all but " + std::to_string(request.keep()) : "");
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (request.all_but() != request.version().empty()) {
    return Bad(request.all_but() ? "with all_but no version is named"
                                 : "the version to remove is missing");
  }
  return RemoveArgs{*ns,
                    request.package(),
                    request.version(),
                    request.all_but(),
                    request.keep(),
                    request.validate_only(),
                    IdOf(call.caller())};
}

Result<Removed> RunRemovePackage(Engine& engine, const Caller&, RemoveArgs& args) {
  return engine.packages().Remove(args);
}

void ReplyRemovePackage(const Removed& removed, const RemoveArgs&,
                        v1::RemovePackageResponse* reply) {
  for (const std::string& version : removed.removed) reply->add_removed(version);
  for (const auto& [version, why] : removed.kept) {
    v1::RemovePackageResponse::Kept* to = reply->add_kept();
    to->set_version(version);
    to->set_why(why);
  }
  reply->set_freed_bytes(removed.freed);
}

}  // namespace dfsmr
