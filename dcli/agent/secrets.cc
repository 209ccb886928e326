#include "dcli/agent/secrets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "dcli/system/process.h"
#include "dcli/text/json.h"
#include "fsm/base/names.h"

namespace dfsmr::cli {
namespace {

constexpr std::string_view kPlaceholder = "$secret";
constexpr size_t kAskedAtOnce = 50;  // so that values of 64 KiB fit one message

Error Wrong(std::string message) {
  return {Code::kInvalidArgument, Reason::kNone, std::move(message)};
}

// What {"$secret": "NAME"} names, perhaps with "version": N; nullopt: it is something else.
std::optional<SecretRef> PlaceholderOf(const std::vector<Member>& members) {
  const Member* name = Find(members, kPlaceholder);
  if (name == nullptr || !name->value.starts_with('"') || members.size() > 2) return std::nullopt;
  SecretRef ref{Unquoted(name->value), 0};
  if (NameProblem("secret", ref.first)) return std::nullopt;
  if (members.size() == 1) return ref;
  const Member* version = Find(members, "version");
  if (version == nullptr) return std::nullopt;
  const char* end = version->value.data() + version->value.size();
  const auto read = std::from_chars(version->value.data(), end, ref.second);
  const bool sound = read.ec == std::errc() && read.ptr == end && ref.second > 0;
  return sound ? std::optional(ref) : std::nullopt;
}

// `json` with what `replace` gives in place of each placeholder ("": it stays); all else as it is
// written.
using Replace = std::function<std::string(const SecretRef&)>;
std::string Replaced(const std::string& json, const Replace& replace) {
  if (json.find(kPlaceholder) == json.npos) return json;
  const size_t begin = json.find_first_not_of(" \t\r\n");
  if (begin == json.npos) return json;
  if (json[begin] == '[') {
    std::string list;
    for (const std::string& item : Items(json)) {
      list += (list.empty() ? "[" : ",") + Replaced(item, replace);
    }
    return list.empty() ? json : list + "]";
  }
  if (json[begin] != '{') return json;
  std::vector<Member> members = Members(json);
  if (const auto ref = PlaceholderOf(members)) {
    const std::string value = replace(*ref);
    return value.empty() ? json : value;
  }
  for (Member& member : members) member.value = Replaced(member.value, replace);
  return ObjectOf(members);
}

// Calls `visit` with each placeholder of what a task is given.
void ForEachPlaceholder(const v1::Task& task, const std::function<void(const SecretRef&)>& visit) {
  for (const std::string* json : {&task.instance_params(), &task.node_params()}) {
    if (json->find(kPlaceholder) == json->npos || !IsJsonObject(*json)) continue;
    Replaced(*json, [&visit](const SecretRef& ref) {
      visit(ref);
      return std::string();
    });
  }
}

bool IsText(const std::string& value) { return Unquoted(JsonString(value)) == value; }

Result<std::string> WriteSecretFile(const std::string& folder, const SecretVariable& variable,
                                    const std::string& value) {
  const auto failed = [&variable] {
    return Error{
        Code::kInternal, Reason::kNone,
        "no file can be written for the secret " + variable.secret + ": " + std::strerror(errno)};
  };
  const std::string secrets = folder + "/secrets";
  if (mkdir(secrets.c_str(), 0700) != 0 && errno != EEXIST) return failed();
  std::string path = secrets + "/" + variable.variable;
  const Descriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.open()) return failed();
  for (size_t at = 0; at < value.size();) {
    const ssize_t count = write(file.get(), value.data() + at, value.size() - at);
    if (count < 0) return failed();
    at += static_cast<size_t>(count);
  }
  return path;
}

void SetVariable(std::vector<std::string>* environment, const std::string& name,
                 const std::string& value) {
  std::erase_if(*environment,
                [&name](const std::string& entry) { return entry.starts_with(name + "="); });
  environment->push_back(name + "=" + value);
}

}  // namespace

const std::string* SecretValues::Find(const SecretRef& ref) const {
  const auto found = values_.find(ref);
  return found == values_.end() ? nullptr : &found->second;
}

void SecretValues::HideBy(Masks* masks) const {
  for (const auto& [ref, value] : values_) masks->Add(value);
}

Result<OwnSecrets> ParseEnvFile(std::string_view text, const std::string& path) {
  OwnSecrets own;
  for (size_t at = 0, number = 1; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const auto wrong = [&](const std::string& why) {
      return Wrong(path + ":" + std::to_string(number) + ": " + why);
    };
    const size_t equals = line.find('=');
    if (equals == line.npos) return wrong("a line is NAME=VALUE, with the name of a secret");
    const std::string name(line.substr(0, equals));
    if (NameProblem("secret", name)) {
      return wrong(
          "what stands in front of = is not the name of a secret: letters, digits, '.', "
          "'_' and '-', a letter or digit first");
    }
    if (!own.emplace(name, line.substr(equals + 1)).second) return wrong(name + " is there twice");
  }
  return own;
}

Result<std::vector<SecretRef>> MissingSecrets(const Worker& worker, const v1::Task& task,
                                              bool variables, const OwnSecrets& own,
                                              SecretValues* have) {
  std::vector<SecretRef> missing;
  std::string refused;
  const auto need = [&](const SecretRef& ref) {
    if (!MayRead(worker, ref.first)) refused = ref.first;
    const auto known = own.find(ref.first);
    if (known != own.end()) return have->Set(ref, known->second);
    if (std::ranges::find(missing, ref) == missing.end()) missing.push_back(ref);
  };
  for (const SecretVariable& one : worker.secret_env) {
    if (variables) need({one.secret, one.version});
  }
  ForEachPlaceholder(task, need);
  if (refused.empty()) return missing;
  return Error{Code::kPermissionDenied, Reason::kNotAllowed,
               "the task asks for the secret " + refused + ", and the worker " + worker.name +
                   " does not list it (secrets: [" + refused + "])"};
}

Result<v1::Task> WithSecrets(const v1::Task& task, const SecretValues& values) {
  v1::Task filled = task;
  std::string no_text;
  const auto fill = [&](const SecretRef& ref) {
    const std::string* value = values.Find(ref);
    if (value == nullptr) return std::string();
    if (!IsText(*value)) no_text = ref.first;
    return JsonString(*value);
  };
  for (std::string* json : {filled.mutable_instance_params(), filled.mutable_node_params()}) {
    if (json->find(kPlaceholder) != json->npos && IsJsonObject(*json)) {
      *json = Replaced(*json, fill);
    }
  }
  if (no_text.empty()) return filled;
  return Wrong("the secret " + no_text +
               " is no text (UTF-8), so it cannot stand in JSON: env gives it, with file: true");
}

Result<Ok> GiveSecrets(const Worker& worker, const SecretValues& values, Launch* launch) {
  for (const SecretVariable& one : worker.secret_env) {
    const std::string* value = values.Find({one.secret, one.version});
    if (value == nullptr) return Wrong("there is no value for the secret " + one.secret);
    if (one.file) {
      const auto path = WriteSecretFile(launch->folder, one, *value);
      if (!path) return path.error();
      SetVariable(&launch->environment, one.variable, *path);
      continue;
    }
    if (value->find('\0') != value->npos) {
      return Wrong("the secret " + one.secret +
                   " holds a zero byte, which no variable can: file: true gives it");
    }
    SetVariable(&launch->environment, one.variable, *value);
  }
  return Ok{};
}

// Asking ------------------------------------------------------------------------------------------

SecretAsker::SecretAsker(Client& client, std::function<void(std::function<void()>)> post)
    : client_(client), post_(std::move(post)) {}

SecretAsker::~SecretAsker() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  cancel_.Cancel();
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void SecretAsker::Ask(const v1::Task& task, std::vector<SecretRef> refs, Answer answer) {
  Question question{.request = {}, .refs = std::move(refs), .answer = std::move(answer)};
  question.request.set_namespace_(task.namespace_());
  question.request.set_instance(task.instance());
  question.request.set_claim(task.claim());
  {
    const Lock lock(mutex_);
    questions_.push_back(std::move(question));
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.NotifyAll();
}

void SecretAsker::Run() {
  Lock lock(mutex_);
  for (;;) {
    changed_.Wait(lock, [this]() REQUIRES(mutex_) { return ended_ || !questions_.empty(); });
    if (ended_) return;
    const Question question = std::move(questions_.front());
    questions_.pop_front();
    lock.Unlock();
    post_([answer = question.answer, values = Resolve(question)] { answer(values); });
    lock.Relock();
  }
}

Result<SecretValues> SecretAsker::Resolve(const Question& question) {
  SecretValues values;
  for (size_t at = 0; at < question.refs.size(); at += kAskedAtOnce) {
    v1::ResolveSecretsRequest request = question.request;
    const size_t end = std::min(at + kAskedAtOnce, question.refs.size());
    for (size_t i = at; i < end; ++i) {
      v1::ResolveSecretsRequest::Item* item = request.add_secrets();
      item->set_name(question.refs[i].first);
      item->set_version(question.refs[i].second);
    }
    auto reply = client_.secrets().ResolveSecrets(request, &cancel_);
    if (!reply) return reply.error();
    for (size_t i = at; i < end && i - at < static_cast<size_t>(reply->secrets_size()); ++i) {
      values.Set(question.refs[i],
                 std::move(*reply->mutable_secrets(static_cast<int>(i - at))->mutable_value()));
    }
  }
  return values;
}

}  // namespace dfsmr::cli
