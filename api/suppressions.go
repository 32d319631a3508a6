package api

// SuppressionBody is a suppression as a client writes it. Exactly one of the addresses is given.
type SuppressionBody struct {
	// As webhooks name it, in lower case.
	Channel string `json:"channel" jsonschema:"required,minLength=1,maxLength=40"`
	// Any way to write it; stored in E.164.
	MobilePhone *string `json:"mobilePhone" jsonschema:"minLength=1,maxLength=64"`
	// In upper or lower case.
	Email      *string `json:"email" jsonschema:"minLength=1,maxLength=254"`
	ExternalID *string `json:"externalId" jsonschema:"minLength=1,maxLength=128"`
}

// Suppression is what keeps a channel from an address: one of the addresses is not null.
type Suppression struct {
	ID      string `json:"id" jsonschema:"pattern=^sup_"`
	Channel string `json:"channel" jsonschema:"minLength=1,maxLength=40"`
	// E.164.
	MobilePhone TextOrNull `json:"mobilePhone"`
	Email       TextOrNull `json:"email"`
	ExternalID  TextOrNull `json:"externalId"`
	CreatedAt   Time       `json:"createdAt"`
}
