-- Health of an AgentModel or AgentToolset for Argo CD: resource.customizations.health.agentloop.dev_AgentModel and
-- agentloop.dev_AgentToolset. Healthy or Degraded by the condition Ready, once it is about the current generation.
local health = { status = "Progressing", message = "Waiting for the operator" }
if obj.status == nil or obj.status.conditions == nil then
  return health
end
local seen = obj.status.observedGeneration
if seen ~= nil and obj.metadata.generation ~= nil and seen < obj.metadata.generation then
  return health
end
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Ready" and condition.status ~= "Unknown" then
    health.status = condition.status == "True" and "Healthy" or "Degraded"
    health.message = condition.message
  end
end
return health
