package api

import "waypost"

// SegmentBody is a segment as a client writes it.
type SegmentBody struct {
	Name string `json:"name" jsonschema:"required,minLength=1,maxLength=100"`
	// A condition in CEL.
	When string `json:"when" jsonschema:"required,minLength=1,maxLength=4096"`
}

// Segment is a condition with a name, which leads meet or not.
type Segment struct {
	ID   string `json:"id" jsonschema:"pattern=^seg_"`
	Name string `json:"name" jsonschema:"minLength=1,maxLength=100"`
	// A condition in CEL.
	When      string          `json:"when" jsonschema:"minLength=1,maxLength=4096"`
	CreatedAt Time            `json:"createdAt"`
	UpdatedAt Time            `json:"updatedAt"`
	Problems  *StoredProblems `json:"problems,omitzero"`
}

// StoredProblems are what a thing would be refused for if it were written now; null: nobody knows.
type StoredProblems []waypost.Detail

// SegmentCount is how many leads a segment had at a time, and some of them.
type SegmentCount struct {
	Count int  `json:"count" jsonschema:"minimum=0"`
	At    Time `json:"at"`
	// In ascending order.
	Sample LeadSample `json:"sample"`
}

// LeadSample are the leadsId of some leads.
type LeadSample []int64

// Schema is what reflection cannot tell of them.
func (LeadSample) Schema() string {
	return `{type: array, maxItems: 20, items: {$ref: "#/components/schemas/LeadsId"}}`
}
