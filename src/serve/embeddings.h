// /v1/embeddings: reading a request and writing its answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/json_fwd.h"
#include "serve/embedding_queue.h"
#include "serve/http.h"
#include "serve/mailbox.h"
#include "serve/metrics.h"
#include "serve/served_model.h"

namespace fk {

struct EmbeddingJob {
  std::string model;
  std::vector<std::vector<int64_t>> texts;
  bool base64 = false;  // the bytes of the numbers, little-endian, in place of their digits
};

// Throws ApiError.
EmbeddingJob read_embedding(const ServedModel& model, const Json& body);

// `work` is kept until the answer is written, and counted in `metrics`, which must outlive the mailbox's thread.
// Throws QueueFull.
void answer_embedding(EmbeddingJob job, EmbeddingQueue& queue, const std::shared_ptr<Mailbox>& mailbox,
                      const ReplyPtr& reply, const std::shared_ptr<void>& work, Metrics& metrics);

}  // namespace fk
