#include "dispatch/options.h"

#include <algorithm>

#include "core/paths.h"
#include "core/status.h"
#include "providers/provider.h"

namespace pl {
namespace {

const std::string& text_of(const std::string& key, const AttributeValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  require(text != nullptr, Code::invalid_argument, key, " is ", to_text(value), ", expected a string");
  return *text;
}

}  // namespace

Tuning parse_tuning(const std::string& text, const char* what, const char* expected) {
  if (text == "auto") return Tuning::automatic;
  if (text == "off") return Tuning::off;
  if (text == "full") return Tuning::full;
  fail(Code::invalid_argument, what, " is \"", text, "\", expected ", expected);
}

Math parse_math(const std::string& text) {
  if (text == "fp32") return Math::fp32;
  if (text == "tf32") return Math::tf32;
  if (text == "fp16") return Math::fp16;
  if (text == "bf16") return Math::bf16;
  fail(Code::invalid_argument, "math is \"", text, "\", expected fp32, tf32, fp16 or bf16");
}

ContextOptions ContextOptions::parse(const Attributes& attributes, ContextOptions options) {
  for (const auto& [name, value] : attributes) {
    const std::string key(name.text());
    if (key == "threads") {
      const auto* threads = std::get_if<int64_t>(&value);
      require(threads && *threads >= 1 && *threads <= 4096, Code::invalid_argument, "context: threads is ",
              to_text(value), ", expected 1 to 4096");
      options.threads = int(*threads);
    } else if (key == "tune") {
      options.tuning = parse_tuning(text_of("context: tune", value), "context: tune", "auto, off or full");
    } else if (key == "math") {
      options.math = parse_math(text_of("context: math", value));
    } else if (key == "cache_dir") {
      options.cache_dir = text_of("context: cache_dir", value);
    } else if (key == "choice_memory") {
      const auto* bytes = std::get_if<int64_t>(&value);
      require(bytes && *bytes >= (1 << 20), Code::invalid_argument, "context: choice_memory is ", to_text(value),
              ", expected bytes, at least 1048576");
      options.choice_memory = size_t(*bytes);
    } else {
      const std::vector<std::string> providers = provider_names();
      const bool tables = key == "cost_tables";
      if (!tables && std::find(providers.begin(), providers.end(), key) == providers.end()) {
        std::string known = "threads, tune, math, cache_dir, choice_memory, cost_tables";
        for (const std::string& name : providers) known += ", " + name;
        fail(Code::invalid_argument, "context: there is no option \"", key, "\"; expected one of ", known);
      }
      const auto* wanted = std::get_if<bool>(&value);
      require(wanted != nullptr, Code::invalid_argument, "context: ", key, " is ", to_text(value),
              ", expected true or false");
      if (tables)
        options.cost_tables = *wanted;
      else if (*wanted)
        options.without.erase(key);
      else
        options.without.insert(key);
    }
  }
  return options;
}

CallRef CallAttributes::parse(const Attributes& all) {
  auto call = std::make_shared<CallAttributes>();
  call->attributes = all;
  Policy& policy = call->policy;
  if (const AttributeValue* value = all.find_value(call_option::layout)) {
    const std::string layout = text_of("layout", *value);
    if (layout == "per-op") {
      policy.mode = Policy::Mode::per_op;
    } else if (layout != "auto") {
      policy.mode = Policy::Mode::forced;
      policy.layout = Layout::parse(layout);
    }
    call->attributes.erase(call_option::layout);
  }
  if (const AttributeValue* value = all.find_value(call_option::device)) {
    if (!std::holds_alternative<None>(*value)) policy.device = text_of("device", *value);
    call->attributes.erase(call_option::device);
  }
  call->hash = hash_mix(call->attributes.hash(), uint64_t(policy.mode));
  call->hash = hash_mix(call->hash, policy.layout.hash());
  for (char c : policy.device) call->hash = hash_mix(call->hash, static_cast<unsigned char>(c));
  return call;
}

std::optional<Layout> family_layout(const Layout& layout, const TensorDesc& desc) {
  if (!desc.present || desc.rank() < 3) return std::nullopt;
  const bool family = layout.is_plain() || layout.is_channels_last() || layout.channel_block() > 0;
  if (!family && layout.rank() != desc.rank()) return std::nullopt;
  return layout.for_rank(desc.rank());
}

}  // namespace pl
