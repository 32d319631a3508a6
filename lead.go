package waypost

import "time"

// LeadFields are the members of businessParam (lead document, "Lead creation
// body") and the contract's additions externalId, openId and customFields. A nil
// pointer is a field that is not set.
type LeadFields struct {
	LeadsGroup     *int64         `json:"leadsGroup"`
	Region         *int64         `json:"region"`
	Address        *string        `json:"address"`
	Remark         *string        `json:"remark"`
	Name           string         `json:"name"`
	MobilePhone    []string       `json:"mobilePhone"`
	Gender         *int64         `json:"gender"`
	Birthday       *string        `json:"birthday"`
	Email          *string        `json:"email"`
	Wechat         *string        `json:"wechat"`
	QQ             *string        `json:"qq"`
	Telephone      *string        `json:"telephone"`
	Company        *string        `json:"company"`
	CompanyPhone   *string        `json:"companyPhone"`
	CompanyEmail   *string        `json:"companyEmail"`
	CompanyWebsite *string        `json:"companyWebsite"`
	ExternalID     *string        `json:"externalId"`
	OpenID         *string        `json:"openId"`
	CustomFields   map[string]any `json:"customFields"`
}

// Lead is a sales prospect. LeadsID comes from one sequence over all stages and
// is never used again.
type Lead struct {
	LeadsID int64 `json:"leadsId"`
	LeadFields
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}
