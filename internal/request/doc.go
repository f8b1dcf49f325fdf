// Package request defines the requests to the owners of partitions and to workers, their replies, and the encoding of both.
//
//	request  [1, operation, [fields]]
//	reply    [1, problem or nil, [fields] or nil]
//
// Each operation has a request type and a reply type. A client sends a request with Call; an owner answers with Serve. If the
// answer does not exist yet (the outcome of an instance, its next custom status), the owner publishes it later, as an Answer, to
// the reply subject that the request names.
package request
