// Package request has the requests to the owners of partitions and to workers, with their replies, and how they are encoded.
//
//	request  [1, operation, [fields]]
//	reply    [1, problem or nil, [fields] or nil]
//
// Each operation has a request type and a reply type. A client makes a request with Call; an owner answers with Serve. What an
// owner cannot answer yet (the end of an instance, its next custom status) it publishes later, as an Answer, to the reply
// subject that the request names.
package request
