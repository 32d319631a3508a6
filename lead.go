package waypost

import (
	"fmt"
	"strconv"
	"time"
)

// LeadFields are the members of businessParam (docs/contract.md, "Lead fields"). A nil
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
	// Consents say by channel whether the lead agrees to be written to: true or false.
	Consents map[string]any `json:"consents"`
	// Test marks a lead that is there to try things out: nothing counts what it goes through.
	Test bool `json:"test"`
}

// Agrees tells whether the lead agrees to be written to through a channel.
func (f *LeadFields) Agrees(channel string) bool { return f.Consents[channel] == true }

// Lead is a sales prospect. LeadsID comes from one sequence over all stages and
// is never used again.
type Lead struct {
	LeadsID int64 `json:"leadsId"`
	LeadFields
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// Began is how many journeys the call that returns the lead has begun by creating or
	// changing it, and one more if the lead may have entered a segment by it.
	Began int `json:"-"`
}

// CustomField is a custom field that leads of a stage have.
type CustomField struct {
	Name  string
	Type  string  // string, number, boolean, or mixed
	Share float64 // of the leads that were looked at, those that have it
}

// LeadSort is the order of a list of leads; leads with equal times follow each other
// by their id, in the same direction.
type LeadSort string

// The orders, "-" for descending.
const (
	SortLeadsID       LeadSort = "leadsId"
	SortLeadsIDDown   LeadSort = "-leadsId"
	SortCreatedAt     LeadSort = "createdAt"
	SortCreatedAtDown LeadSort = "-createdAt"
	SortUpdatedAt     LeadSort = "updatedAt"
	SortUpdatedAtDown LeadSort = "-updatedAt"
)

// LeadSorts lists all orders.
var LeadSorts = []LeadSort{SortLeadsID, SortLeadsIDDown, SortCreatedAt, SortCreatedAtDown, SortUpdatedAt, SortUpdatedAtDown}

// LeadQuery selects and orders leads. An empty Sort is SortLeadsID. Page.After is
// the Cursor of the last lead of the page before.
type LeadQuery struct {
	Filter LeadFilter
	Sort   LeadSort
	Page   Page
}

// Cursor is the place of a lead in a list of this order.
func (s LeadSort) Cursor(l Lead) string {
	switch s {
	case SortCreatedAt, SortCreatedAtDown:
		return fmt.Sprintf("%d,%d", l.CreatedAt.UnixMicro(), l.LeadsID)
	case SortUpdatedAt, SortUpdatedAtDown:
		return fmt.Sprintf("%d,%d", l.UpdatedAt.UnixMicro(), l.LeadsID)
	}
	return strconv.FormatInt(l.LeadsID, 10)
}
