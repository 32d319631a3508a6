package waypost

import (
	"encoding/json"
	"time"
)

// ImportMode says what an import does with a row (docs/contract.md, "Lead imports").
type ImportMode string

// The modes. ImportMatch says how a row names the lead that it means.
const (
	ImportCreate ImportMode = "create" // every row is a new lead; leadsId is ignored
	ImportUpdate ImportMode = "update" // every row is merged into a lead that exists
	ImportUpsert ImportMode = "upsert" // update where the lead exists, create elsewhere
)

// ImportMatch says what of a row names the lead that it means, in the modes update and
// upsert. "" is the leadsId, else the externalId.
type ImportMatch string

// What a row can name its lead by.
const (
	MatchLeadsID     ImportMatch = "leadsId"
	MatchExternalID  ImportMatch = "externalId"
	MatchEmail       ImportMatch = "email"       // without case
	MatchMobilePhone ImportMatch = "mobilePhone" // any of its numbers
)

// ImportMatches lists them.
var ImportMatches = []ImportMatch{MatchLeadsID, MatchExternalID, MatchEmail, MatchMobilePhone}

// ImportStatus is where an import stands.
type ImportStatus string

// The states of an import. The last three are final.
const (
	ImportPending   ImportStatus = "pending"   // stored, no row is processed yet
	ImportRunning   ImportStatus = "running"   // some rows are processed
	ImportSucceeded ImportStatus = "succeeded" // all rows are processed, failed ones included
	ImportFailed    ImportStatus = "failed"    // it cannot go on; Message says why
	ImportCanceled  ImportStatus = "canceled"  // rows that were processed stay
)

// Ended tells whether nothing more will happen to the import.
func (s ImportStatus) Ended() bool {
	return s == ImportSucceeded || s == ImportFailed || s == ImportCanceled
}

// Import writes many leads: its rows are stored when it is accepted, and processed
// by a workflow, each exactly once (docs/contract.md, "Lead imports").
type Import struct {
	ID     string
	Scope  Scope
	AppID  string
	Mode   ImportMode
	Match  ImportMatch
	DryRun bool // only validates
	// PhoneRegion is the country of phone numbers without one, such as "CN".
	PhoneRegion string
	Status      ImportStatus
	Message     string // why it failed, "" otherwise; no data of a row
	Total       int    // rows
	Processed   int    // of Total: Created + Updated + Failed
	Created     int
	Updated     int
	Failed      int
	CreatedAt   time.Time
	StartedAt   *time.Time
	EndedAt     *time.Time
}

// ImportRow is one row as it was sent: one JSON object with members of LeadFields
// and perhaps leadsId, createdAt and updatedAt (the latter two are ignored, so that
// an export can be imported). A row that could not even be read carries Fault
// instead of Data.
type ImportRow struct {
	Line  int // in the file, from 1; of a JSON list: the element, from 1
	Data  []byte
	Fault *Error
}

// LeadRow is what a row of an import says: which lead it means, if it says so, and
// what of its fields.
type LeadRow struct {
	LeadsID *int64
	LeadPatch
}

// ReadLeadRow reads the Data of an ImportRow as ReadLeadPatch reads a patch, and birthdays in
// the forms of files.
func ReadLeadRow(data []byte) (LeadRow, Problems) {
	var row struct {
		LeadsID *int64 `json:"leadsId"`
		LeadFields
		CreatedAt json.RawMessage `json:"createdAt"` // of any type: ignored
		UpdatedAt json.RawMessage `json:"updatedAt"`
	}
	written, problems := decodeJSON(data, &row)
	row.clean()
	if row.Birthday != nil {
		written := birthdayOfFile(*row.Birthday)
		row.Birthday = &written
	}
	return LeadRow{row.LeadsID, LeadPatch{row.LeadFields, written}}, problems
}

// ImportError is a row that failed, and why.
type ImportError struct {
	Line int
	*Error
}

// MaxImportRows is how many rows an import can have.
const MaxImportRows = 1_000_000

// MaxImportBody is the largest import, in bytes (docs/contract.md, "Bodies").
const MaxImportBody = 64 << 20

// MaxLineErrors is how many faulty lines an import of articles or of events tells about;
// it counts all of them.
const MaxLineErrors = 1000
