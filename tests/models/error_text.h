// The text of the fk::Error that a call throws, or a note that it did not throw.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/error.h"

namespace fk {

template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "(no error)";
}

// The sentence names each of these words, is one line, and ends as a sentence does.
inline void expect_sentence(const std::string& sentence, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(sentence.find(word), std::string::npos) << word << "\nin: " << sentence;
  EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
  EXPECT_TRUE(sentence.ends_with('.')) << sentence;
}

}  // namespace fk
