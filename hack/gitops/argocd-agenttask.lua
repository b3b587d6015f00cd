-- Health of an AgentTask for Argo CD: resource.customizations.health.agentloop.dev_AgentTask.
-- Progressing while it runs, Suspended while it waits for a person, Healthy on success, Degraded on every other end.
local health = { status = "Progressing", message = "Waiting for the operator" }
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "Being deleted"
  return health
end
if obj.status == nil or obj.status.phase == nil then
  return health
end
local seen = obj.status.observedGeneration
if seen ~= nil and obj.metadata.generation ~= nil and seen < obj.metadata.generation then
  health.message = "Waiting for the operator to see the last change"
  return health
end
local byPhase = {
  Pending = "Progressing",
  Running = "Progressing",
  NeedsInput = "Suspended",
  Suspended = "Suspended",
  Succeeded = "Healthy",
  Failed = "Degraded",
  Cancelled = "Degraded",
}
health.status = byPhase[obj.status.phase] or "Unknown"
for _, c in ipairs(obj.status.conditions or {}) do
  if c.type == "Stalled" and c.status == "True" then
    health.status = "Degraded" -- it does not go on by itself, such as with a damaged journal
  end
end
health.message = obj.status.message or obj.status.phase
if obj.status.inputRequest ~= nil and obj.status.inputRequest.question ~= nil then
  health.message = obj.status.inputRequest.question
elseif obj.status.exitReason ~= nil then
  health.message = obj.status.exitReason .. ": " .. health.message
end
return health
