package waypost

// Message is the documented body of a push (journey webhook document, "Request
// body"). The order of the members is the order on the wire.
type Message struct {
	MessageID   string         `json:"messageId"`
	Version     string         `json:"version"`
	Timestamp   string         `json:"timestamp"` // RFC 3339 UTC, milliseconds, of the first attempt
	UserProfile UserProfile    `json:"userProfile"`
	JourneyInfo JourneyInfo    `json:"journeyInfo"`
	Params      map[string]any `json:"params"` // never nil
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
