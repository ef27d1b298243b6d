#include "models/tokenizer_file.h"

#include <set>

#include "core/error.h"
#include "models/in_quotes.h"
#include "models/lfs_pointer.h"
#include "models/unicode.h"

namespace fk {
namespace {

constexpr size_t kMaxDepth = 64;

// Builds the tree through nlohmann's own handler, except below model.vocab and model.merges.
class Handler : public nlohmann::detail::json_sax_dom_parser<Json> {
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;

 public:
  explicit Handler(TokenizerFile& file) : Base(file.root, true), file_(file) {}

  std::string refused;

  bool null() { return list_ == kNone ? Base::null() : refuse_entry(); }
  bool boolean(bool v) { return list_ == kNone ? Base::boolean(v) : refuse_entry(); }
  bool number_float(double v, const std::string& text) {
    return list_ == kNone ? Base::number_float(v, text) : refuse_entry();
  }
  bool number_integer(int64_t v) { return list_ == kNone ? Base::number_integer(v) : vocab_id(v); }
  bool number_unsigned(uint64_t v) {
    return list_ == kNone   ? Base::number_unsigned(v)
           : v <= INT64_MAX ? vocab_id(static_cast<int64_t>(v))
                            : refuse_entry();
  }
  bool string(std::string& v) { return list_ == kNone ? Base::string(v) : merge_string(v); }

  bool start_object(size_t n) {
    if (list_ != kNone) return refuse_entry();
    if (in_model("vocab")) {
      list_ = kVocab;
      file_.vocab.emplace();
      return Base::null();
    }
    return enter(true) && Base::start_object(n);
  }
  bool end_object() {
    if (list_ == kVocab) {
      list_ = kNone;
      return true;
    }
    frames_.pop_back();
    return Base::end_object();
  }
  bool start_array(size_t n) {
    if (list_ == kMerges && !in_pair_) {
      in_pair_ = true;
      pair_.clear();
      return true;
    }
    if (list_ != kNone) return refuse_entry();
    if (in_model("merges")) {
      list_ = kMerges;
      file_.merges.emplace();
      return Base::null();
    }
    return enter(false) && Base::start_array(n);
  }
  bool end_array() {
    if (list_ == kMerges && in_pair_) {
      in_pair_ = false;
      if (pair_.size() != 2) return refuse_entry();
      file_.merges->emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      return true;
    }
    if (list_ == kMerges) {
      list_ = kNone;
      return true;
    }
    frames_.pop_back();
    return Base::end_array();
  }
  bool key(std::string& k) {
    if (list_ == kVocab) {
      token_ = k;
      return true;
    }
    frames_.back().key = k;
    if (frames_.back().seen.insert(k).second) return Base::key(k);
    refused = fmt::format("the key {} appears twice in one object", in_quotes(k));
    return false;
  }

 private:
  struct Frame {
    bool object;
    std::string key{};
    std::set<std::string> seen{};
  };

  bool in_model(std::string_view key) const {
    return frames_.size() == 2 && frames_[0].object && frames_[1].object && frames_[0].key == "model" &&
           frames_[1].key == key;
  }

  bool enter(bool object) {
    frames_.push_back({.object = object});
    if (frames_.size() <= kMaxDepth) return true;
    refused = fmt::format("it is nested deeper than {} levels", kMaxDepth);
    return false;
  }

  bool vocab_id(int64_t id) {
    if (list_ != kVocab) return refuse_entry();
    file_.vocab->emplace_back(std::move(token_), id);
    return true;
  }

  bool merge_string(std::string& v) {
    if (list_ != kMerges) return refuse_entry();
    if (in_pair_) {
      pair_.push_back(std::move(v));
      return pair_.size() <= 2 || refuse_entry();
    }
    if (v.starts_with("#version")) return true;
    size_t space = v.find(' ');
    if (space == std::string::npos || v.find(' ', space + 1) != std::string::npos) return refuse_entry();
    file_.merges->emplace_back(v.substr(0, space), v.substr(space + 1));
    return true;
  }

  bool refuse_entry() {
    if (list_ == kVocab)
      refused = fmt::format("the id of model.vocab entry {} is not an integer", file_.vocab->size());
    else
      refused = fmt::format("model.merges entry {} is not a pair of tokens", file_.merges->size());
    return false;
  }

  TokenizerFile& file_;
  enum { kNone, kVocab, kMerges } list_ = kNone;
  std::vector<Frame> frames_;
  std::string token_;
  bool in_pair_ = false;
  std::vector<std::string> pair_;
};

}  // namespace

TokenizerFile read_tokenizer_file(std::string_view text, std::string_view what) {
  refuse_lfs_pointer(text, what, "the tokenizer");
  TokenizerFile file;
  file.what = what;
  Handler handler(file);
  try {
    if (Json::sax_parse(text.begin(), text.end(), &handler)) return file;
  } catch (const nlohmann::json::exception& e) {
    std::string detail = e.what();
    if (auto end = detail.find("] "); end != std::string::npos) detail = detail.substr(end + 2);
    throw Error("{} is not valid JSON: {}.", what, unicode::repair_utf8(detail));
  }
  throw Error("{} cannot be read as a tokenizer: {}.", what, handler.refused);
}

}  // namespace fk
