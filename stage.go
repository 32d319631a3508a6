package waypost

// Stage is the environment that a request selects with X-Cloud-Stage
// (docs/contract.md, "Stages"). It partitions all data: what is created in one stage does
// not exist in the others.
type Stage string

// The stages. Customers use release, which is also the default.
const (
	StageRelease    Stage = "release"
	StagePreRelease Stage = "pre-release"
	StageTest       Stage = "test"
)

// ParseStage reads the X-Cloud-Stage header; an empty one is release.
func ParseStage(s string) (Stage, error) {
	switch Stage(s) {
	case "":
		return StageRelease, nil
	case StageRelease, StagePreRelease, StageTest:
		return Stage(s), nil
	}
	return "", Errorf(CodeBadRequest, "X-Cloud-Stage", "X-Cloud-Stage must be release, pre-release or test")
}

// Scope is the partition that data belongs to: an organisation and a stage.
type Scope struct {
	Org   string `json:"org"`
	Stage Stage  `json:"stage"`
}
