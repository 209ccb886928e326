#include "dcli/call/secrets.h"

#include <termios.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iostream>
#include <sstream>

#include "dcli/commands/commands.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace secret_command {

// While it lives, what is typed is not shown.
class NoEcho {
 public:
  NoEcho() : known_(tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (known_) tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
  }
  ~NoEcho() {
    if (known_) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  NoEcho(const NoEcho&) = delete;
  NoEcho& operator=(const NoEcho&) = delete;

 private:
  termios before_{};
  const bool known_;
};

Result<std::string> ReadValue(Context& context, const SecretOptions& options) {
  std::ostringstream text;
  if (!options.file.empty() && options.file != "-") {
    std::ifstream file(options.file, std::ios::binary);
    if (file) text << file.rdbuf();
    if (!file) return BadUsage("cannot read " + options.file);
  } else if (isatty(STDIN_FILENO) == 1) {
    context.err << "The value of " << options.name << " (not shown): " << std::flush;
    std::string line;
    {
      const NoEcho silent;
      std::getline(std::cin, line);
    }
    context.err << '\n';
    return line;
  } else {
    text << std::cin.rdbuf();
  }
  std::string value = text.str();
  if (!options.raw && value.ends_with('\n')) value.pop_back();
  return value;
}

std::string TextOf(const google::protobuf::RepeatedPtrField<v1::Secret::Version>& versions) {
  std::string text;
  for (const v1::Secret::Version& one : versions) {
    text += (text.empty() ? "" : " ") + std::to_string(one.version());
  }
  return text;
}

int Put(Context& context, const SecretOptions& options) {
  auto value = ReadValue(context, options);
  if (!value) return context.FailUsage(value.error());
  if (value->empty()) return context.Fail(kBadUsage, "the value is empty");
  v1::PutSecretRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(options.name);
  request.set_value(*std::move(value));
  const auto secret = context.client->secrets().PutSecret(request);
  if (!secret) return context.Fail(secret.error());
  if (context.Print(*secret)) return kSucceeded;
  const uint32_t version = secret->versions_size() > 0 ? secret->versions(0).version() : 0;
  context.out << secret->name();
  if (!context.names()) context.out << "@" << version;
  context.out << '\n';
  return kSucceeded;
}

void PrintKeys(Context& context, const v1::ListSecretsResponse& list) {
  Table table({"KEY", "VERSIONS"});
  const std::map<std::string, uint64_t> keys(list.keys().begin(), list.keys().end());
  for (const auto& [key, count] : keys) table.Add({key, std::to_string(count)});
  table.Print(context.out, context.look);
}

void PrintTable(Context& context, const v1::ListSecretsResponse& list) {
  Table table({"NAME", "VERSIONS", "CREATED", "BY", "KEY"});
  for (const v1::Secret& secret : list.secrets()) {
    if (secret.versions_size() == 0) continue;
    const v1::Secret::Version& newest = secret.versions(0);
    table.Add({secret.name(), TextOf(secret.versions()), When(newest.create_time(), context.look),
               newest.created_by(), newest.key()});
  }
  table.Print(context.out, context.look);
}

int List(Context& context, const SecretOptions& options) {
  v1::ListSecretsRequest request;
  request.set_namespace_(context.name_space);
  const auto list = context.client->secrets().ListSecrets(request);
  if (!list) return context.Fail(list.error());
  if (context.Print(*list)) return kSucceeded;
  if (context.names()) {
    for (const v1::Secret& secret : list->secrets()) context.out << secret.name() << '\n';
  } else if (options.keys) {
    PrintKeys(context, *list);
  } else if (list->secrets_size() > 0) {
    PrintTable(context, *list);
  } else {
    context.Note("there is no secret");
  }
  return kSucceeded;
}

int Delete(Context& context, const SecretOptions& options) {
  v1::DeleteSecretRequest request;
  request.set_namespace_(context.name_space);
  const size_t at = options.name.find('@');
  request.set_name(options.name.substr(0, at));
  if (at != options.name.npos) {
    const std::string text = options.name.substr(at + 1);
    uint32_t version = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, version);
    if (read.ec != std::errc() || read.ptr != end || version == 0) {
      return context.Fail(kBadUsage, "\"" + text + "\" is no version of a secret, such as db@3");
    }
    request.set_version(version);
  }
  const auto secret = context.client->secrets().DeleteSecret(request);
  if (!secret) return context.Fail(secret.error());
  if (context.Print(*secret)) return kSucceeded;
  context.out << options.name << '\n';
  if (secret->versions_size() > 0) {
    context.Note("left: " + TextOf(secret->versions()));
  }
  return kSucceeded;
}

}  // namespace secret_command

int Secret(Context& context, const SecretOptions& options) {
  const bool lists = options.action == "list";
  if ((options.action == "put" || options.action == "delete" || lists) &&
      lists != options.name.empty()) {
    return context.Fail(kBadUsage, lists ? "secret list takes no NAME"
                                         : "secret " + options.action + " needs a NAME");
  }
  if (options.action == "put") return secret_command::Put(context, options);
  if (lists) return secret_command::List(context, options);
  if (options.action == "delete") return secret_command::Delete(context, options);
  return context.Fail(kBadUsage, "secret does not know \"" + options.action + "\"" +
                                     DidYouMean(options.action, {"put", "list", "delete"}));
}

}  // namespace dfsmr::cli
