package waypost

import "fmt"

// TimeFormat is how times are written on every interface: RFC 3339 with
// milliseconds, for times in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// Message is the body of a push (docs/contract.md, "Message"). The order of the members
// is the order on the wire.
type Message struct {
	MessageID   string         `json:"messageId"`
	Version     string         `json:"version"`
	Timestamp   string         `json:"timestamp"` // RFC 3339 UTC, milliseconds, of the first attempt
	UserProfile UserProfile    `json:"userProfile"`
	JourneyInfo JourneyInfo    `json:"journeyInfo"`
	Params      map[string]any `json:"params"` // never nil
}

// Encode writes the message as it is sent: members in the documented order, no
// white space, and no HTML escapes, which receivers do not expect.
func (m Message) Encode() ([]byte, error) {
	if m.Params == nil {
		m.Params = map[string]any{}
	}
	encoded, err := EncodeJSON(m)
	if err != nil {
		return nil, fmt.Errorf("encode message %s: %w", m.MessageID, err)
	}
	return encoded, nil
}

// MessageVersion is the version member of every message.
const MessageVersion = "1.0"

// UserProfile says whom a message is about.
type UserProfile struct {
	OrgID  string `json:"orgId"`
	AppID  string `json:"appId"`  // the application that enrolled the lead
	UserID string `json:"userId"` // the lead's externalId, or ""
	AffID  string `json:"affId"`  // leadsId as a string
	OpenID string `json:"openId"` // or ""
}

// JourneyInfo says which touchpoint of which journey a message comes from.
type JourneyInfo struct {
	JourneyID   string `json:"journeyId"` // the enrollment's id: the instance
	JourneyName string `json:"journeyName"`
	ActionDefID string `json:"actionDefId"` // journey id/version/node id
	ActionID    string `json:"actionId"`    // this execution of the node
}
