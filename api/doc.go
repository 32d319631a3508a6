// Package api is the wire of the HTTP interface: what the gateway decodes and answers, and what package client and those
// above it read. It holds types alone; rules that a type cannot say are in package waypost and in the gateway.
//
// The schemas of gateway/openapi.yaml are generated from these types (go generate ./api, ADR 23). Names, order and
// types of members come from the fields, limits from the tags jsonschema and jsonschema_extras, and descriptions from the
// comments, which are therefore written for readers of the interface.
//
// A type's name tells what it is. In a Body, null stands for an absent member, and members are optional that the tag does
// not say are required. In a PatchBody, which is merged (RFC 7396), all are optional. Of other types, which are answered,
// every member is there; it can be null if its type is a pointer or ends with OrNull.
package api

//go:generate go test -run ^TestOpenAPIIsGenerated$ . -update
